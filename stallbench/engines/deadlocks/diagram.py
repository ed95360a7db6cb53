"""Draws a deadlock as a cycle: which transaction waits for which lock, and which one holds it.

An arrow leads from a transaction to the lock that it waits for, or from a lock to its holder. All arrows have the same sense of rotation,
so they form a closed loop: two columns, to be read clockwise from the upper left.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from stallbench.engines.deadlocks.cycle import WaitChain, find_chains
from stallbench.engines.deadlocks.deadlock import Deadlock, Lock, LockKind, Transaction, Wait
from stallbench.engines.deadlocks.diagram_text import CODE, MUTED, NAME, PLACE, PLAIN, SPACE, Font, wrap
from stallbench.engines.deadlocks.style import style_of

NOT_LISTED = "holder not listed by the server"

_COLUMN_PX = 400
_BETWEEN_PX = 164
_MARGIN_PX = 8
_WIDTH_PX = 2 * (_MARGIN_PX + _COLUMN_PX) + _BETWEEN_PX
_ROW_GAP_PX = 58
_PADDING_PX = 14
_INNER_PX = _COLUMN_PX - 2 * _PADDING_PX
_HEAD_PX = 7
"""Length of an arrow's head."""
_MOST_STATEMENT_LINES = 6


_MEANINGS: Mapping[LockKind, str] = {
    "rec but not gap": "the entry alone",
    "gap": "the gap before it",
    "next-key": "the entry and the gap before it",
    "insert intention": "to insert there",
    "table": "all of it",
    "transaction": "the end of the transaction that wrote or locked it",
    "virtual transaction": "the end of a transaction, even one that only reads",
    "tuple": "the first place among those that wait for this row",
    "page": "one page of it",
    "extension": "to add pages to it",
    "advisory": "a key that has a meaning for applications only",
    "": "unknown",
}

_STYLE = """
.deadlock text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink, #1b1f24); }
.deadlock .box { fill: var(--raised, #f6f7f9); stroke: var(--line, #d8dee4); stroke-width: 1.5; }
.deadlock .lock { fill: var(--background, #fff); stroke: var(--muted, #57606a); stroke-width: 1.5; }
.deadlock .victim { stroke: var(--red, #cf222e); stroke-width: 2.5; }
.deadlock .tag { fill: #cf222e; }
.deadlock text.tagged { fill: #fff; font-size: 12px; font-weight: 700; }
.deadlock text.name { font-size: 15px; font-weight: 700; }
.deadlock text.muted { font-size: 12px; fill: var(--muted, #57606a); }
.deadlock text.code { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.deadlock text.place { font: 600 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.deadlock .waits { stroke: var(--orange, #bc4c00); fill: var(--orange, #bc4c00); }
.deadlock .held { stroke: var(--blue, #0969da); fill: var(--blue, #0969da); }
.deadlock .unknown { stroke: var(--muted, #57606a); fill: var(--muted, #57606a); }
.deadlock path.line { fill: none; stroke-width: 2; }
.deadlock path.unknown.line { stroke-dasharray: 3 5; }
.deadlock path.head { stroke: none; }
.deadlock text.label { font-weight: 600; stroke: none; }
""".strip()
"""The colours are variables of the report; the literal ones apply if the drawing is shown without the report."""


def draw_deadlock(deadlock: Deadlock, names: Mapping[int, str] | None = None) -> str:
    """Return an inline SVG of ``deadlock``; ``names`` has the name of a connection by its thread id: ``worker-3``."""
    style = style_of(deadlock.server)
    words = _Words(names or {}, style.session, style.held)
    body: list[str] = []
    top = float(_MARGIN_PX)
    for place, chain in enumerate(find_chains(deadlock)):
        shapes, top = _draw_chain(chain, words, top + (_ROW_GAP_PX / 2 if place else 0))
        body += shapes
    top += _MARGIN_PX
    for note in _notes(deadlock):
        for line in wrap(note, _WIDTH_PX - 2 * _MARGIN_PX, MUTED):
            top += MUTED.line_px
            body.append(_text(_MARGIN_PX, top - 5, line, MUTED.css))
    title = f"Deadlock of {len(deadlock.transactions)} transactions, {deadlock.when}"
    story = " ".join(_describe(deadlock, words))
    key = f"deadlock-{zlib.crc32((title + story).encode()):08x}"
    return (
        f'<svg class="deadlock" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH_PX} {top + _MARGIN_PX:.0f}" '
        f'style="width:100%;min-width:640px;max-width:{_WIDTH_PX}px;height:auto" role="img" aria-labelledby="{key}-title {key}-desc">'
        f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-desc">{escape(story)}</desc>'
        f"<style>{_STYLE}</style>{''.join(body)}</svg>"
    )


@dataclass(frozen=True, slots=True)
class _Words:
    """What sessions and the arrow from a lock to its holder are called."""

    names: Mapping[int, str]
    session: str
    held: str

    def name(self, transaction: Transaction) -> str:
        if transaction.thread_id is None:
            return f"unknown {self.session}"
        return self.names.get(transaction.thread_id, f"{self.session} {transaction.thread_id}")


@dataclass(slots=True)
class _Box:
    """A rectangle with lines of text in it."""

    lines: list[tuple[str, Font]]
    classes: str
    tag: str = ""
    x: float = 0
    y: float = 0
    height: float = 0

    @property
    def needed_px(self) -> float:
        return 2 * _PADDING_PX + sum(font.line_px for _, font in self.lines)

    def draw(self) -> Iterator[str]:
        yield (f'<rect class="{self.classes}" x="{self.x}" y="{self.y:g}" width="{_COLUMN_PX}" height="{self.height:g}" rx="8"/>')
        if self.tag:
            width = len(self.tag) * 7 + 16
            left = self.x + _COLUMN_PX - _PADDING_PX - width
            yield f'<rect class="tag" x="{left:g}" y="{self.y + 12:g}" width="{width}" height="21" rx="5"/>'
            yield _text(left + width / 2, self.y + 27, self.tag, "tagged", middle=True)
        y = self.y + _PADDING_PX
        for line, font in self.lines:
            y += font.line_px
            if line:
                yield _text(self.x + _PADDING_PX, y - 5, line, font.css)


def _draw_chain(chain: WaitChain, words: _Words, top: float) -> tuple[list[str], float]:
    """Return the shapes of a chain whose upper edge is at ``top``, and where its lower edge is."""
    boxes: list[_Box] = []
    links: list[tuple[str, str]] = []
    for place, (transaction, wait) in enumerate(chain.steps, start=1):
        boxes.append(_transaction_box(transaction, words))
        if wait:
            links.append(("waits", "waits for"))
            loose = place == len(chain.steps) and not chain.closed and (wait.holder is not None or place == 1)
            boxes.append(_lock_box(wait, ends=loose))
            links.append(("held", words.held))
    rows = (len(boxes) + 1) // 2
    # The first box is at the upper left, the next ones go down on the right, the others up again on the left.
    cells = [(0, 0)] + [(1, row) for row in range(rows)] + [(0, row) for row in reversed(range(1, rows))]
    heights = [0.0] * rows
    for box, (_, row) in zip(boxes, cells, strict=False):
        heights[row] = max(heights[row], box.needed_px)
    for box, (column, row) in zip(boxes, cells, strict=False):
        box.x = _MARGIN_PX + column * (_COLUMN_PX + _BETWEEN_PX)
        box.y = top + sum(heights[:row]) + row * _ROW_GAP_PX
        box.height = heights[row]
    shapes = [shape for box in boxes for shape in box.draw()]
    for (css, label), box, following in zip(links, boxes, boxes[1:], strict=False):
        shapes += _draw_arrow(box, following, css, label)
    last = chain.steps[-1][1]
    if chain.closed:
        shapes += _draw_arrow(boxes[-1], boxes[0], "held", words.held)
    elif last and last.holder is None and len(chain.steps) > 1:
        shapes += _draw_arrow(boxes[-1], boxes[0], "unknown", NOT_LISTED)
    return shapes, top + sum(heights) + (rows - 1) * _ROW_GAP_PX


def _transaction_box(transaction: Transaction, words: _Words) -> _Box:
    tag = "rolled back" if transaction.rolled_back else ""
    room = _INNER_PX - (len(tag) * 7 + 24 if tag else 0)
    about = [f"transaction {transaction.transaction_id}"] if transaction.transaction_id else []
    if transaction.thread_id is not None and transaction.thread_id in words.names:
        about.append(f"{words.session} {transaction.thread_id}")
    about += [part for part in (transaction.user, transaction.state) if part]
    lines = _lines((f"({transaction.number}) {words.name(transaction)}", room, NAME), (" · ".join(about), _INNER_PX, MUTED))
    lines += [("", SPACE), *((line, CODE) for line in _shorten(transaction.sql))]
    if transaction.is_cut_off:
        lines += _lines(("the server or the bench cut off the rest of it", _INNER_PX, MUTED))
    if not transaction.sql:
        lines += _lines(("its statement is not in the listing", _INNER_PX, MUTED))
    if transaction.waits_for is None:
        lines += _lines(("what it waits for is not in the listing", _INNER_PX, MUTED))
    return _Box(lines, "box victim" if transaction.rolled_back else "box", tag)


def _lock_box(wait: Wait, *, ends: bool) -> _Box:
    """Return the box of a lock; the last box of a chain names the holder in words, because no arrow leads to it."""
    keys = wait.lock.keys[:1]
    lines = _lines((wait.lock.target, _INNER_PX, PLACE))
    if keys and keys[0]:
        lines += _lines((f"entry: {keys[0]}", _INNER_PX, CODE))
    lines += [("", SPACE), *_lines((f"wanted: {describe(wait.lock)}", _INNER_PX, PLAIN))]
    if wait.held:
        others = len(set(wait.held.heap_nos) - set(wait.lock.heap_nos))
        more = f", and {others} other {'entry' if others == 1 else 'entries'}" if others else ""
        lines += _lines((f"held: {describe(wait.held)}{more}", _INNER_PX, PLAIN))
    if wait.holder and wait.unlisted:
        whom = "a transaction" if wait.unlisted == 1 else f"{wait.unlisted} transactions"
        lines += _lines((f"also held by {whom} not listed by the server", _INNER_PX, MUTED))
    if ends:
        lines += _lines((f"held by ({wait.holder.number})" if wait.holder else NOT_LISTED, _INNER_PX, PLAIN))
    return _Box(lines, "lock")


def describe(lock: Lock) -> str:
    """Return mode and kind in the server's words, and what they mean: ``X, next-key (the entry and the gap before it)``."""
    kind = f", {lock.kind} ({_MEANINGS[lock.kind]})" if lock.kind else ""
    return f"{lock.mode or 'mode unknown'}{kind}"


def _shorten(sql: str) -> list[str]:
    """Return a statement in lines that fit a box. A long one is cut in the middle, because its end says what it locks."""
    plain = " ".join(sql.replace("`", "").split())
    lines = wrap(plain, _INNER_PX, CODE)
    if len(lines) <= _MOST_STATEMENT_LINES:
        return lines
    tail = wrap("… " + plain[2 - int(_INNER_PX / CODE.character_px) :].partition(" ")[2], _INNER_PX, CODE)
    return lines[: _MOST_STATEMENT_LINES - len(tail)] + tail


def _lines(*texts: tuple[str, float, Font]) -> list[tuple[str, Font]]:
    return [(line, font) for text, room, font in texts for line in wrap(text, room, font)]


def _draw_arrow(box: _Box, following: _Box, css: str, label: str) -> Iterator[str]:
    """Draw an arrow between boxes beside or above one another."""
    if box.x == following.x:
        x = box.x + _COLUMN_PX / 2
        down = following.y > box.y
        start = box.y + box.height if down else box.y
        end = following.y if down else following.y + following.height
        step = _HEAD_PX if down else -_HEAD_PX
        yield _path(f"M{x:g} {start:g}V{end - step:g}", f"{css} line")
        yield _path(f"M{x:g} {end:g}l-5 {-step}h10z", f"{css} head")
        yield _text(x + 14, (start + end) / 2 + 5, label, f"{css} label")
        return
    right = following.x > box.x
    y = box.y + box.height / 2
    start = box.x + _COLUMN_PX if right else box.x
    end = following.x if right else following.x + _COLUMN_PX
    step = _HEAD_PX if right else -_HEAD_PX
    yield _path(f"M{start:g} {y:g}H{end - step:g}", f"{css} line")
    yield _path(f"M{end:g} {y:g}l{-step} -5v10z", f"{css} head")
    words = wrap(label, _BETWEEN_PX - 4 * _HEAD_PX, PLAIN)
    for place, line in enumerate(words):
        yield _text((start + end) / 2, y - 9 - (len(words) - 1 - place) * PLAIN.line_px, line, f"{css} label", middle=True)


def _path(data: str, css: str) -> str:
    return f'<path class="{css}" d="{data}"/>'


def _text(x: float, y: float, text: str, css: str, *, middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text class="{css}" x="{x:g}" y="{y:g}"{anchor}>{escape(text)}</text>'


def _notes(deadlock: Deadlock) -> Iterator[str]:
    """Yield what the drawing does not show."""
    if deadlock.too_deep:
        yield (
            "The server gave up its search for a cycle (over 200 transactions or a million locks) "
            "and rolled back the transaction for which it searched."
        )
    if deadlock.victim_by == "weight":
        yield (
            "The transaction with the fewest locks and changes is shown as rolled back; the server names "
            f"({deadlock.victim_said}), which has more of them."
        )
    elif not deadlock.victim:
        yield "The listing does not say which transaction was rolled back."
    for wait in deadlock.waits():
        if wait.holder is None:
            yield (
                f"({wait.waiter.number}) waits for {wait.lock.target}, but the listing does not say who holds it: another of these "
                "transactions, or a session that the server does not show."
            )


def _describe(deadlock: Deadlock, words: _Words) -> Iterator[str]:
    """Yield the drawing in sentences, for screen readers."""
    waits = {wait.waiter.number: wait for wait in deadlock.waits()}
    for transaction in deadlock.transactions:
        yield f"({transaction.number}) {words.name(transaction)}{' was rolled back' if transaction.rolled_back else ''}."
        if wait := waits.get(transaction.number):
            key = f" entry {wait.lock.keys[0]}" if wait.lock.keys else ""
            holder = f"{words.held} ({wait.holder.number})" if wait.holder else NOT_LISTED
            yield f"It waits for {wait.lock.target}{key}, {describe(wait.lock)}, {holder}."
        yield f"Its statement: {' '.join(_shorten(transaction.sql)) or 'not listed'}."
    yield from _notes(deadlock)
