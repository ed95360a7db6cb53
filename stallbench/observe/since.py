"""What a server still knows of a time that is over: what `stallbench observe --since` prints, from one reading."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.observe.address import read_addresses
from stallbench.observe.diagnostic import NotVisible
from stallbench.observe.family import find_family
from stallbench.observe.formatting import format_moment
from stallbench.visible_text import say

NO_READING = NotVisible(
    what="who held what at that time: sessions, locks, waits and statements of a moment are kept nowhere",
    why="a server forgets them when they are over; a recorder keeps them for the next time",
    remedy="stallbench observe --dsn ADDRESS --record history",
    is_of_next_time=True,
)


def report_since(dsn: list[str], since: datetime, *, log: Path | None, as_json: bool) -> None:
    """Read the server once and print what is left of the time from ``since`` on. Raises `BadInputError`, `NotCarriedOutError` if it cannot be read."""
    servers = read_addresses(dsn)
    family = find_family(servers.primary.engine)
    if log is not None and not family.reads_logs:
        raise BadInputError(f"--log {log}: only a log of PostgreSQL can be read; leave it out")
    if log is not None and not log.is_file():
        raise BadInputError(
            f"--log {log}: there is no such file on this machine; leave the option out if the server is on another one"
        )
    observer = family.observe_since(servers, since, log)
    try:
        observation = observer.read(reads_everything=True)
    finally:
        observer.close()
    if observation.gone:
        raise NotCarriedOutError(f"the server cannot be read: {observation.gone}")
    if as_json:
        from stallbench.observe.document import JsonLines

        JsonLines(shows_all=True).print(observation)
        return
    from stallbench.observe.screen import ObserveScreen

    say(
        f"What this server still knows of the time since {format_moment(since)}. It is read now: sessions and locks of that time are gone,\n"
        "and holders and slots below are those of this moment, which may be older.\n"
    )
    ObserveScreen(shows_all=True).print(observation)
