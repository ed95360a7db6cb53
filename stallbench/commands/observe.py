"""`stallbench observe`: diagnoses a live server, read-only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ObservedDsnOption = Annotated[
    list[str],
    typer.Option(
        "--dsn",
        metavar="[NAME=]ADDRESS",
        help="The server: postgresql://USER@HOST:PORT/DATABASE, or mariadb://.., mysql://.. Repeat it with the NAME under which a replica streams "
        "to see behind the replica's feedback. The password is read from PGPASSWORD (MYSQL_PWD) or the password file.",
    ),
]


def observe(
    dsn: ObservedDsnOption,
    once: Annotated[bool, typer.Option("--once", help="Look twice, two seconds apart, print one report, and end.")] = False,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="The time between two looks, if these are cheap.")] = "5s",
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="SCHEMA.TABLE", help="A queue's table, if it is not recognised by itself. Can be repeated."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", metavar="FILE", help="The server's log, if it is on this machine: shows what each vacuum could not remove."
        ),
    ] = None,
) -> None:
    """Find out why a queue is slow, on a live server: who holds the horizon, what is blocked, dead rows, slow claims, stuck jobs.

    It reads system views and bounded counts of the queue's tables. It writes nothing, takes no lock stronger than ACCESS SHARE, and uses less than
    a hundredth of a core. Without --once it updates the report until Ctrl-C.

    Exit codes: 0 the server was read (whatever was found), 2 bad input, 3 the server could not be read.

    For example:

        stallbench observe --dsn postgresql://reader@db.test/app
        stallbench observe --dsn postgresql://reader@db.test/app --once
        stallbench observe --dsn postgresql://reader@db.test/app --dsn replica1=postgresql://reader@db2.test/app --table public.my_jobs
    """
    from stallbench.observe.command import observe_continuously, observe_once
    from stallbench.observe.options import read_options

    options = read_options(dsn, every=every, tables=table or [], log=log)
    if once:
        observe_once(options)
    else:
        observe_continuously(options)
