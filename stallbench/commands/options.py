"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ScenarioArgument = Annotated[str, typer.Argument(metavar="SCENARIO", help="A name from `stallbench list`, or a path.")]
VariantOption = Annotated[str | None, typer.Option("--variant", "-v", help="A variant that the scenario names.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one value, by its path in the file; can be repeated."),
]
RunsOption = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where runs are kept.")]
DsnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dsn",
        metavar="NAME=ADDRESS",
        help="Join a server instead of starting one: primary=postgresql://user@host:5432/database, and replica-1=.. and so on. "
        "The password comes by STALLBENCH_PASSWORD.",
    ),
]
DatabaseOption = Annotated[
    str | None, typer.Option("--database", metavar="NAME", help="The joined database's name again: the bench writes into it.")
]
ToxiproxyOption = Annotated[
    str | None,
    typer.Option("--toxiproxy", metavar="URL", help="Join a Toxiproxy, too; the bench starts its own if not given."),
]
AllowServerChangesOption = Annotated[
    bool,
    typer.Option("--allow-server-changes", help="Let the bench change settings of joined servers, and set them back afterwards."),
]
