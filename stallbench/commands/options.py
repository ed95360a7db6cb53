"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stallbench.errors import BadInputError
from stallbench.storage.address import is_address

ScenarioArgument = Annotated[str, typer.Argument(metavar="SCENARIO", help="A name from `stallbench list`, or a path.")]
VariantOption = Annotated[
    str | None, typer.Option("--variant", "-v", help="A variant of the scenario; `stallbench list` shows all variants.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one value of the scenario, by its key path. Can be repeated."),
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
    """Return the folder on this machine; raises `BadInputError` for an address, of which a path would make a folder with a strange name."""
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
        help="The folder in which runs are kept, or an address like s3://BUCKET/RUNS, to which the run is moved when it is over.",
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
