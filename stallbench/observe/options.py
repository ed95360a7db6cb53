"""Reads and checks the options of `stallbench observe`."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stallbench.base.duration import parse_duration_s
from stallbench.errors import BadInputError
from stallbench.observe.address import ObservedServers, read_addresses
from stallbench.observe.family import find_family
from stallbench.setup.components import require_java
from stallbench.visible_text import make_visible

if TYPE_CHECKING:
    from stallbench.observe.history import HistoryBounds
    from stallbench.observe.webhook import WebhookAddress
    from stallbench.processes.exposure import Exposure
    from stallbench.scenario.expectation import Expectation

_SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""Of ``--every``."""
_LONGEST_S = 86_400.0
KEEP, KEEP_MB = "168h", 500
"""How much of a history is kept if nothing is said."""
_SHORTEST_KEEP_S, _LONGEST_KEEP_S = 3600.0, 8784 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveOptions:
    """What the user asked for."""

    servers: ObservedServers
    every_s: float
    tables: tuple[str, ...]
    log: Path | None
    once: bool
    shows_all: bool = False
    """Whether to show all figures, not only the findings."""
    as_json: bool = False
    """Whether to print a JSON document for each reading, in place of the report."""
    serves_mcp: bool = False
    """Whether to answer a program by the Model Context Protocol, in place of all reports."""
    for_s: float | None
    """How long to observe; None: until Ctrl-C."""
    report: bool
    """Whether to make the report of a run from the recorded observation."""
    expect: tuple[Expectation, ...]
    exposure: Exposure | None
    profile: Path | None
    """Where to write the load of the queue as a scenario."""
    webhook: WebhookAddress | None = None
    """Where to post findings that begin, become worse or end."""
    history: HistoryBounds | None = None
    """Where to keep readings, and how many."""
    runs: Path

    @property
    def is_recorded(self) -> bool:
        """Whether to record the observation as a run."""
        return self.report or bool(self.expect)


def read_options(
    dsn: Sequence[str],
    *,
    every: str,
    tables: Sequence[str],
    log: Path | None,
    once: bool,
    shows_all: bool = False,
    as_json: bool = False,
    for_: str | None,
    report: bool,
    expect: Path | None,
    expose: str | None,
    profile: Path | None,
    runs: Path,
    mode: str | None = None,
    webhook: str | None = None,
    allows_unencrypted_webhook: bool = False,
    record: Path | None = None,
    keep: str | None = None,
    keep_mb: int | None = None,
) -> ObserveOptions:
    """Return the options; raises `BadInputError` that names the option, what was found and what is expected.

    Raises `MissingComponentError` if a report is asked for and there is no Java to make it.
    """
    every_s = _read_time("--every", every, _SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
    for_s = None if for_ is None else _read_time("--for", for_, every_s, _LONGEST_S)
    if mode is not None:
        given = {"--once": once, "--all": shows_all, "--json": as_json, "--for": for_, "--report": report, "--expect": expect}
        _require_mode(mode, {**given, "--expose": expose, "--record-profile": profile, "--webhook": webhook, "--record": record})
    for is_given, option in ((report, "--report"), (expect is not None, "--expect"), (profile is not None, "--record-profile")):
        if is_given and for_s is None:
            raise BadInputError(f"{option} needs --for: it is made of what was recorded over a time, like --for 10m")
        if is_given and as_json:
            raise BadInputError(f"{option} cannot be combined with --json, which prints readings and nothing else")
        if is_given and once:
            raise BadInputError(f"{option} cannot be combined with --once, which records nothing")
    for is_given, option in (
        (for_s is not None, "--for"),
        (bool(expose), "--expose"),
        (webhook is not None, "--webhook"),
        (record is not None, "--record"),
    ):
        if once and is_given:
            raise BadInputError(f"--once cannot be combined with {option}: it prints one report and ends")
    if allows_unencrypted_webhook and webhook is None:
        raise BadInputError("--allow-unencrypted-webhook needs --webhook: without it nothing is posted")
    if log is not None and not log.is_file():
        raise BadInputError(
            f"--log {log}: there is no such file on this machine; leave the option out if the server is on another one"
        )
    servers = read_addresses(dsn)
    if log is not None and not find_family(servers.primary.engine).reads_logs:
        raise BadInputError(f"--log {log}: only a log of PostgreSQL can be read; leave it out")
    if profile is not None and for_s is not None:
        _require_profile(profile, for_s=for_s, every_s=every_s)
    options = ObserveOptions(
        servers=servers,
        every_s=every_s,
        tables=tuple(tables),
        log=log,
        once=once,
        shows_all=shows_all,
        as_json=as_json,
        serves_mcp=mode is not None,
        for_s=for_s,
        report=report,
        expect=_read_expectations(expect) if expect else (),
        exposure=_read_exposure(expose) if expose else None,
        profile=profile,
        webhook=_read_webhook(webhook, allows_unencrypted=allows_unencrypted_webhook) if webhook is not None else None,
        history=_read_bounds(record, keep, keep_mb),
        runs=runs,
    )
    if report:
        require_java()
    return options


def _read_bounds(record: Path | None, keep: str | None, keep_mb: int | None) -> HistoryBounds | None:
    if record is None:
        if keep is not None or keep_mb is not None:
            raise BadInputError(
                f"{'--keep' if keep is not None else '--keep-size'} needs --record: it bounds the history that this keeps"
            )
        return None
    from stallbench.observe.history import HistoryBounds

    keep_s = _read_time("--keep", keep or KEEP, _SHORTEST_KEEP_S, _LONGEST_KEEP_S)
    return HistoryBounds(folder=record.absolute(), keep_s=keep_s, keep_bytes=(keep_mb or KEEP_MB) * 1_000_000)


def _require_mode(mode: str, others: Mapping[str, object]) -> None:
    """Raise `BadInputError` unless the mode is mcp, with none of the options that are about reports."""
    if mode != "mcp":
        found = "an address" if "://" in mode else make_visible(mode)  # which may have a password
        raise BadInputError(f"observe {found}: expected mcp, or nothing; an address follows --dsn")
    if given := [option for option, value in others.items() if value]:
        raise BadInputError(
            f"observe mcp cannot be combined with {', '.join(given)}: it answers a program, and reports nothing by itself"
        )


def _read_webhook(text: str, *, allows_unencrypted: bool) -> WebhookAddress:
    from stallbench.observe.webhook import read_webhook

    return read_webhook(text, allows_unencrypted=allows_unencrypted)


def _read_expectations(path: Path) -> tuple[Expectation, ...]:
    from stallbench.observe.expectations import read_expectations

    return read_expectations(path)


def _require_profile(path: Path, *, for_s: float, every_s: float) -> None:
    """Raise `BadInputError` if the load cannot be recorded there, before anything is observed."""
    from stallbench.observe.profile.estimate import FEWEST_READINGS
    from stallbench.scenario.file import is_scenario_name

    option = f"--record-profile {path}"
    if path.suffix != ".toml" or not is_scenario_name(path.stem):
        raise BadInputError(
            f"{option}: a scenario's file is named with up to 63 small letters, digits, - and _, the first a letter, and .toml"
        )
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise BadInputError(f"{option}: no file can be written there; expected a path in a folder that exists")
    if for_s < FEWEST_READINGS * every_s:
        shortest = f"--for {FEWEST_READINGS * every_s:g}s, or a shorter --every"
        raise BadInputError(f"{option} needs {FEWEST_READINGS} readings of the server; expected at least {shortest}")


def _read_time(option: str, text: str, shortest_s: float, longest_s: float) -> float:
    try:
        time_s = parse_duration_s(text)
    except ValueError as error:
        raise BadInputError(f"{option} {text}: {error}") from None
    if not shortest_s <= time_s <= longest_s:
        raise BadInputError(f"{option} {text}: expected {shortest_s:g}s to {longest_s:g}s")
    return time_s


def _read_exposure(address: str) -> Exposure:
    """Return where to listen; raises `BadInputError` if that is no free address of this machine."""
    from stallbench.processes.exposure import Exposure

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise BadInputError(f"--expose {address}: expected ADDRESS:PORT, like 127.0.0.1:9187")
    try:
        with socket.create_server((host.strip("[]"), int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return Exposure(host=host.strip("[]"), port=int(port))
    except OSError as error:
        raise BadInputError(f"--expose {address}: cannot listen there: {error.strerror}") from error
