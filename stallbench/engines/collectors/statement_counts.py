"""Which statement takes the server's time, and did it become slower? A claim that reads past dead rows reads more buffers from call to call.

Counts and times are the server's own, so they do not depend on the network, on the clients, or on how busy the machine is with something else.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.records.samples import Sample
from stallbench.sql_literals import LiteralSyntax, hide_literals

STATEMENTS_FILE = "statements.jsonl"
"""The file in the run's folder that has the text of each sampled statement."""
_MOST_STATEMENTS = 20
_LONGEST_TEXT = 2_000
_QUOTATION_MARKS = str.maketrans("", "", '"`')


class StatementCounts(NamedTuple):
    """What a server has counted of a statement since it was started."""

    statement: int | str
    calls: int
    total_ms: float
    rows: int
    buffers: int | None
    """None if the server does not count them."""


def plain_statement(text: str | None) -> str:
    """Return a statement's text as claim patterns expect it: in one line, without quotation marks around names."""
    return " ".join((text or "").translate(_QUOTATION_MARKS).split())


class StatementCountsCollector(ServerCollector):
    """Reads the counts of the statements that took the most time, and of all claim statements together."""

    literals: ClassVar[LiteralSyntax]
    """How the engine writes constants."""
    shortest_interval_s = 1.0

    def __init__(self, document: CollectorsDocument) -> None:
        """Know no statement yet."""
        super().__init__(document)
        self._claim = re.compile(document.queue.claim_pattern, re.IGNORECASE) if document.queue.claim_pattern else None
        self._is_claim: defaultdict[str, dict[int | str, bool]] = defaultdict(dict)

    def sample_server(self, server: WatchedServer, connection: Any) -> Iterator[Sample]:
        """Yield the counts since the server's start; only that nothing is counted if the server does not count statements."""
        counted = self.read_counts(connection)
        yield Sample(server.name, "server", "statements_counted", int(counted is not None))
        if counted is None:
            return
        self._write_texts(server, connection, [counts.statement for counts in counted])
        is_claim = self._is_claim[server.name]
        claims = [counts for counts in counted if is_claim.get(counts.statement)]
        longest = sorted(counted, key=lambda counts: counts.total_ms, reverse=True)[:_MOST_STATEMENTS]
        for counts in {each.statement: each for each in (*claims, *longest)}.values():
            values = {
                "calls": counts.calls,
                "total_ms": round(counts.total_ms, 3),
                "rows": counts.rows,
                "buffers": counts.buffers,
            }
            yield from samples_of(server.name, f"statement:{counts.statement}", values)
        if claims:
            values = {
                "claim_statement_calls": sum(counts.calls for counts in claims),
                "claim_statement_ms": round(sum(counts.total_ms for counts in claims), 3),
                "claim_statement_rows": sum(counts.rows for counts in claims),
                "claim_statement_buffers": None
                if any(counts.buffers is None for counts in claims)
                else sum(counts.buffers or 0 for counts in claims),
            }
            yield from samples_of(server.name, "claim_statement", values)

    @abstractmethod
    def read_counts(self, connection: Any) -> list[StatementCounts] | None:
        """Return the counts of every statement; none if the server counts no statements."""

    @abstractmethod
    def read_texts(self, connection: Any, statements: Sequence[int | str]) -> Iterable[tuple[int | str, str | None]]:
        """Return the text of each statement, without its values."""

    def _write_texts(self, server: WatchedServer, connection: Any, statements: Sequence[int | str]) -> None:
        """Recognise claims among statements that are new, and write their texts down."""
        known = self._is_claim[server.name]
        new = [statement for statement in statements if statement not in known]
        if not new:
            return
        lines = []
        for statement, text in self.read_texts(connection, new):
            plain = plain_statement(text)
            known[statement] = bool(self._claim and self._claim.search(plain))
            written = {
                "server": server.name,
                "statement": str(statement),
                "is_claim": known[statement],
                # Of utility statements PostgreSQL keeps the values.
                "text": plain_statement(hide_literals(text or "", self.literals))[:_LONGEST_TEXT],
            }
            lines.append(json.dumps(written) + "\n")
        with (self.document.run_folder / STATEMENTS_FILE).open("a") as file:
            file.write("".join(lines))
