"""Answers from a history as if it had been asked then: what `stallbench observe --at` prints."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stallbench.base.duration import parse_duration_s
from stallbench.errors import BadInputError
from stallbench.observe.document import read_observation
from stallbench.observe.formatting import format_age
from stallbench.observe.history import PastReading, find_reading
from stallbench.visible_text import say

_MOMENT = re.compile(
    r"(?:(?P<date>\d{4}-\d{2}-\d{2})[ T]|(?P<day>today|yesterday) )?(?P<time>\d{1,2}:\d{2}(?::\d{2})?)(?: ?(?P<zone>UTC|Z|[+-]\d{2}:?\d{2}))?",
    re.ASCII | re.IGNORECASE,
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}|today|yesterday", re.ASCII | re.IGNORECASE)
_AGO = re.compile(r"(\S+) ago", re.ASCII)
_GAP_S = 120.0
"""Longer than the longest ``--every``: between two readings that are further apart the recorder did not run."""


def answer(folder: Path, at: datetime, *, shows_all: bool, as_json: bool) -> None:
    """Print the reading that was the latest at ``at``. Raises `NotCarriedOutError` if there is none."""
    found = find_reading(folder, at)
    if as_json:
        say(found.line)
        return
    from stallbench.observe.screen import ObserveScreen

    say(_describe(found, at))
    say()
    ObserveScreen(shows_all=shows_all).print(read_observation(found.document))


def read_moment(text: str, now: datetime, option: str = "--at") -> datetime:
    """Return the time that a user means, in UTC; a text without a zone is in the machine's. ``now``: the time of the machine, with its zone.

    A day without a time is its beginning. ``option``: that it is the value of. Raises `BadInputError` if it cannot be read, or is not over.
    """
    option = f'{option} "{text}"'
    try:
        if match := _AGO.fullmatch(text.strip()):
            return (now - timedelta(seconds=parse_duration_s(match[1], "10m"))).astimezone(UTC)
        moment = _read_clock(text.strip(), now)
    except (ValueError, OverflowError) as error:
        raise BadInputError(
            f'{option}: {error}; expected a time like "14:05", "yesterday", "yesterday 14:05", "2026-11-27 14:05:30", "2026-11-27 13:05 UTC" '
            'or "90m ago"'
        ) from None
    if moment > now:
        raise BadInputError(f"{option}: that is {moment:%Y-%m-%d %H:%M:%S %z}, and not over; it is {now:%H:%M:%S %z} now")
    return moment.astimezone(UTC)


def _read_clock(text: str, now: datetime) -> datetime:
    match = _MOMENT.fullmatch(f"{text} 00:00" if _DAY.fullmatch(text) else text)
    if match is None:
        raise ValueError("cannot be read")
    zone = (match["zone"] or "").upper().replace("UTC", "+00:00").replace("Z", "+00:00")
    time = match["time"] if len(match["time"].split(":")[0]) == len("14") else f"0{match['time']}"
    today = (now.astimezone(datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo) if zone else now).date()
    day = today - timedelta(days=1) if (match["day"] or "").lower() == "yesterday" else today
    moment = datetime.fromisoformat(f"{match['date'] or day}T{time}{zone}")
    if not zone:
        moment = moment.astimezone()  # by the rules of the machine's zone at that time
    if not match["date"] and not match["day"] and moment > now:
        return moment - timedelta(days=1)
    return moment


def _describe(found: PastReading, at: datetime) -> str:
    """Say which reading this is, what is not known between it and the next, and that its statements were for then."""
    local = at.astimezone()
    asked = f"{local:%Y-%m-%d %H:%M:%S}" + ("" if not local.utcoffset() else f" {local:%z} ({at:%H:%M:%S} UTC)")
    before_s = (at - found.document.at).total_seconds()
    lines = [f"Asked for {asked}: the reading of {found.document.at:%Y-%m-%d %H:%M:%S} UTC, {format_age(before_s)} before."]
    until = found.next_at
    if until is None and before_s > _GAP_S:
        lines.append("Nothing was recorded after it.")
    elif until is not None and (until - found.document.at).total_seconds() > _GAP_S:
        lines.append(f"Nothing was recorded from then to {until:%Y-%m-%d %H:%M:%S} UTC.")
    if any(way.statement for finding in found.document.findings for way in finding.ways):
        lines.append("Its statements were for that time: do not execute them now. A process id may be another session's by now.")
    return "\n".join(lines)
