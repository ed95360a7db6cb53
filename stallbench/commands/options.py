"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stallbench.base.storage.address import is_address
from stallbench.errors import BadInputError
from stallbench.run.folder import STUDY, find_study_folder, require_own

if TYPE_CHECKING:
    from stallbench.studies.kind import StudyKind
    from stallbench.verdicts.baseline.against import BaselineChoice
    from stallbench.verdicts.baseline.baseline_file import Baseline

ScenarioArgument = Annotated[str, typer.Argument(metavar="SCENARIO", help="A name from `stallbench list`, or a path.")]
VariantOption = Annotated[
    str | None, typer.Option("--variant", "-v", help="A variant of the scenario; `stallbench list` shows all variants.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one value of the scenario, by its key path. Can be repeated."),
]


class JudgedAs(StrEnum):
    """What a run is asked."""

    REPRODUCED = "reproduced"
    SURVIVES = "survives"


JudgeOption = Annotated[
    JudgedAs | None,
    typer.Option(
        "--judge",
        help="reproduced: does the run show what the scenario expects? survives: does the queue survive, whatever is expected? "
        "Default: reproduced for the scenario's own queue, survives for another one in its place.",
    ),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="BASELINE",
        help="Compare with earlier runs, and fail on a regression: a file of `stallbench baseline`, or the folder or name of a run, comparison, "
        "matrix, search for a limit or soak, of the same kind as this command.",
    ),
]
ToleranceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tolerance",
        metavar="[METRIC=]PERCENT",
        help="With --against: how much worse a metric may be, like 20%, latency_ms.p95=50%, or deadlocks.count=5 in its unit. "
        "Can be repeated. Default: 20%.",
    ),
]
RoundsOption = Annotated[
    int,
    typer.Option(
        "--repeat", metavar="N", min=1, max=1000, help="The number of rounds; each has a run of every variant or version."
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="S",
        min=0,
        max=2**31 - 1,
        help="The random seed of the order and of all runs. Default: the scenario's.",
    ),
]
CrashSeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=2**31 - 1,
        help="The seed that decides at which passages of a crash point a process is killed or paused. Default: a random one.",
    ),
]


def _read_folder(text: str | Path) -> Path:
    """Return the folder on this machine; raises `BadInputError` for an address, which would otherwise become a folder with the address as its
    name.
    """
    if is_address(str(text)):
        raise BadInputError(
            f"--runs {text}: expected a folder on this machine; an address is allowed for: stallbench run --runs ADDRESS, "
            "stallbench report ADDRESS/RUN"
        )
    return Path(text)


RunsOption = Annotated[
    Path,
    typer.Option(
        "--runs", metavar="DIR", help="The folder in which runs are kept.", show_default="reports/runs", parser=_read_folder
    ),
]
RunsOrAddressOption = Annotated[
    str,
    typer.Option(
        "--runs",
        metavar="DIR",
        help="The folder in which runs are kept, or an address like s3://BUCKET/RUNS, to which the run is moved at its end.",
        show_default="reports/runs",
    ),
]
DsnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dsn",
        metavar="NAME=ADDRESS",
        help="Use an external server instead of starting one: primary=postgresql://user@host:5432/database; replicas as replica-1=.. and so on. "
        "The password is read from STALLBENCH_PASSWORD.",
    ),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="NAME",
        help="Repeat the name of the external database, to confirm that the bench may write into it.",
    ),
]
ToxiproxyOption = Annotated[
    str | None,
    typer.Option("--toxiproxy", metavar="URL", help="With --dsn: use an external Toxiproxy, too. Default: the bench starts one."),
]
AllowServerChangesOption = Annotated[
    bool,
    typer.Option(
        "--allow-server-changes", help="Allow the bench to change settings of external servers. It restores them afterwards."
    ),
]
ContinueOption = Annotated[
    str | None,
    typer.Option(
        "--continue",
        metavar="FOLDER",
        help="Carry out what an earlier study of this command lacks, because it was interrupted or a run could not be carried out: its folder or "
        "name; all other settings are its own.",
    ),
]
MasterOption = Annotated[
    str, typer.Option(help="The Spark master that computes the tables: local[*], spark://HOST:PORT, k8s://HOST:PORT or yarn.")
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        metavar="NAME=VALUE",
        help="A setting for Spark, as for `spark-submit --conf`. Can be repeated. No secrets: process lists would show them.",
    ),
]


def list_overrides(set_: Sequence[str] | None, judge: JudgedAs | None) -> list[str]:
    """Return what ``--set`` and ``--judge`` change in the scenario, each ``key=value``."""
    return [*(set_ or []), *([f"judge={judge}"] if judge else [])]


def require_writable(option: str, path: Path) -> None:
    """Raise `BadInputError` if the file that ``option`` names cannot be written, before the work whose result it is to have."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadInputError(f"{option} {path}: no file can be written there; expected a path in an existing folder")


def find_against(against: str | None, tolerance: Sequence[str] | None, runs: Path) -> BaselineChoice | None:
    """Return what the options ``--against`` and ``--tolerance`` name; none without ``--against``. Raises `BadInputError`."""
    if against is None:
        if tolerance:
            raise BadInputError("--tolerance is only for a comparison with a baseline: add --against BASELINE")
        return None
    from stallbench.verdicts.baseline.against import BaselineChoice
    from stallbench.verdicts.baseline.tolerance import read_tolerance, require_compared

    allowed = read_tolerance(tolerance or [])
    found = BaselineChoice(baseline=_find_baseline(against, runs), options=tuple(tolerance or []))
    require_compared(allowed, found.baseline.kind)
    return found


def _find_baseline(name: str, runs: Path) -> Baseline:
    """Return the content of a baseline file. Anything else is read elsewhere, because it needs pandas, whose import takes long."""
    if Path(name).is_file():
        from stallbench.verdicts.baseline.baseline_file import read_baseline_file

        return read_baseline_file(Path(name))
    from stallbench.studies.baseline_collection import find_baseline

    return find_baseline(name, runs)


def find_study_to_continue(name: str, kind: StudyKind[Any], runs: Path) -> Path:
    """Return the folder of the study that ``--continue`` names; raises `BadInputError` if there is none, or one of another kind."""
    from stallbench.studies.kind import read_kind

    folder = find_study_folder(name, runs)
    if folder is None:
        newest = sorted((path.parent for path in runs.glob(f"*/{STUDY}")), reverse=True)
        known = [path.name for path in newest if read_kind(path) is kind]
        there_are = f"; there are {', '.join(known[:3])}" if known else ""
        raise BadInputError(
            f"--continue {name}: there is no {kind.title} of that name in {runs}, and no folder with a {STUDY}{there_are}"
        )
    if (found := read_kind(folder)) is not kind:
        raise BadInputError(f"--continue {name}: is a {found.title}; expected a {kind.title}")
    require_own(folder)
    return folder


def require_no_options(why: str, options: Mapping[str, object]) -> None:
    """Raise `BadInputError`, which says ``why``, if one of ``options``, by name, is given."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise BadInputError(f"{why}: leave out {' and '.join(given)}")
