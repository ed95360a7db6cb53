"""Begins or resumes the soak that the command line requests, then carries it out."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.run.capacity import with_measured_load
from stallbench.run.folder import find_soak_folder, require_own
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from stallbench.scenario.validation.external import require_fit_for_external
from stallbench.servers.addresses import ExternalServers, read_external_servers
from stallbench.shell_command import format_shell_command
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.plan import read_duration_s, read_scenario_again, require_fit_for_soak
from stallbench.studies.soak.record import SoakRecord
from stallbench.studies.soak.regression import name_soak, require_comparable_soak
from stallbench.studies.soak.screen import SoakView
from stallbench.studies.soak.soak import Soak, begin, resume
from stallbench.verdicts.baseline.against import BaselineChoice, write_against
from stallbench.verdicts.baseline.comparability import with_load_of
from stallbench.visible_text import say

_KEEP = 3


@dataclass(frozen=True, slots=True)
class PreparedSoak:
    """A soak whose folder exists, with everything needed to carry it out."""

    folder: SoakFolder
    record: SoakRecord
    scenario: Scenario
    external: ExternalServers | None


def begin_or_resume(
    scenario: str | None,
    *,
    for_: str | None,
    resume_: str | None,
    variant: str | None,
    overrides: Sequence[str],
    keep: int | None,
    dsn: Sequence[str],
    database: str | None,
    toxiproxy: str | None,
    may_change_servers: bool,
    runs: Path,
    against: BaselineChoice | None = None,
) -> PreparedSoak:
    """Check everything that was asked for, then create or resume the soak's folder; raises `BadInputError`."""
    # Ignored here and by every process that is started from here, so that the soak continues when the terminal is closed.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    folder: SoakFolder | None = None
    if resume_ is not None:
        if scenario is not None or for_ is not None or variant is not None or overrides or against:
            raise BadInputError(
                "--continue continues a soak as it was begun; leave out SCENARIO, --for, --variant, --set and --against"
            )
        folder = _find(resume_, runs)
        chosen = read_scenario_again(folder.read().scenario)
    elif scenario is None or for_ is None:
        raise BadInputError("soak needs a SCENARIO and how long, like: stallbench soak longtx --for 8h; or --continue SOAK")
    else:
        chosen = read_scenario(scenario, variant=variant, overrides=list(overrides))
    require_fit_for_soak(chosen)
    external = read_external_servers(
        list(dsn), database=database, toxiproxy=toxiproxy, may_change_servers=may_change_servers, wanted=chosen.database
    )
    if external:
        require_fit_for_external(chosen, external)
    if folder is not None:
        return PreparedSoak(folder, resume(folder, keep, is_external=external is not None), chosen, external)
    assert for_ is not None
    for_s = read_duration_s(for_, chosen)
    if against:
        chosen = with_load_of(against.baseline, name_soak(chosen), chosen)
        require_comparable_soak(against, chosen, for_s)
    chosen = with_measured_load(chosen, _say, runs, external)
    begun = PreparedSoak(*begin(chosen, for_s, _KEEP if keep is None else keep, runs, external), chosen, external)
    if against:
        write_against(begun.folder.path, against)
    return begun


def carry_out(begun: PreparedSoak) -> None:
    """Carry the soak out. If it ends early, print why; its record has the reason too, and a report can be made."""
    view = SoakView(begun.folder.log)
    soak = Soak(begun.folder, begun.record, begun.scenario, view, begun.external)
    view.say(soak.describe_plan())
    try:
        soak.carry_out()
    except KeyboardInterrupt:
        view.say(
            f"interrupted; continue it with: {format_shell_command(['stallbench', 'soak', '--continue', begun.folder.path])}"
        )
    except NotCarriedOutError as error:
        view.say(str(error))
        say(error, to=sys.stderr)


def _say(sentence: str) -> None:
    """Print a message at once, or drop it if the terminal is closed."""
    with suppress(OSError):
        say(sentence, flush=True)


def _find(name: str, runs: Path) -> SoakFolder:
    path = find_soak_folder(name, runs)
    if path is None:
        known = sorted((each.parent.name for each in runs.glob("*/soak.json")), reverse=True)
        there_are = f"; there are {', '.join(known[:3])}" if known else f"; there is none below {runs}"
        what = "is not a soak's folder: it has no soak.json" if Path(name).is_dir() or (runs / name).is_dir() else "no such soak"
        raise BadInputError(f"--continue {name}: {what}{there_are}")
    require_own(path)
    return SoakFolder(path)
