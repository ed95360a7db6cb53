"""`stallbench observe`: diagnoses a live server, read-only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from stallbench.commands.endings import conclude_and_exit, index_renewed, shorten
from stallbench.commands.extra import require_mcp
from stallbench.commands.options import RunsOption
from stallbench.errors import EXIT_FAIL, EXIT_PASS, BadInputError
from stallbench.run.folder import RUNS
from stallbench.shell_command import format_shell_command
from stallbench.visible_text import say

ObservedDsnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dsn",
        metavar="[NAME=]ADDRESS",
        help="The server: postgresql://USER@HOST:PORT/DATABASE, or mariadb://.., mysql://.. Repeat it with the NAME under which a replica streams "
        "to see which of its sessions hold the horizon. The password is read from PGPASSWORD (MYSQL_PWD) or the password file.",
    ),
]


def observe(
    dsn: ObservedDsnOption = None,
    mode: Annotated[
        str | None,
        typer.Argument(
            metavar="[mcp]",
            show_default=False,
            help="mcp: in place of a report, answer a program over standard input and output by the Model Context Protocol. Needs "
            "`stallbench[mcp]`.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read the server twice, two seconds apart, print one report, and end.")
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Show all figures that were read, too, not only what is wrong and each queue in a line.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print a JSON document for each reading, in a line, in place of the report: `stallbench schema reading` describes it.",
        ),
    ] = False,
    every: Annotated[
        str,
        typer.Option(
            "--every", metavar="TIME", help="The time between two readings of the server; longer if they are expensive."
        ),
    ] = "5s",
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="SCHEMA.TABLE",
            help="Count the rows of this queue's table, and not of those that are recognised by their columns. Can be repeated.",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", metavar="FILE", help="PostgreSQL's log, if it is on this machine: shows what each vacuum could not remove."
        ),
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after this time, like 10m. Default: at Ctrl-C.")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="With --for: record the observation and make the report that a run has.")
    ] = False,
    expect: Annotated[
        Path | None,
        typer.Option(
            "--expect",
            metavar="FILE",
            help="With --for: judge the [[expect]] tables of this TOML file. Exit code, verdict.json and junit.xml; needs no Java.",
        ),
    ] = None,
    expose: Annotated[
        str | None,
        typer.Option(
            "--expose", metavar="ADDRESS:PORT", help="Serve Prometheus metrics here; Grafana's dashboard Server shows them."
        ),
    ] = None,
    record_profile: Annotated[
        Path | None,
        typer.Option(
            "--record-profile",
            metavar="FILE",
            help="With --for: write the queue's load as a scenario, without names and payloads, that `stallbench run FILE` repeats on the "
            "bench's own servers.",
        ),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            "--webhook",
            metavar="URL|VARIABLE",
            help="POST a JSON document when a finding begins, becomes worse or ends: to this URL, or to the one that the environment variable "
            "of this name has, which no process list shows. https, or an address of this machine.",
        ),
    ] = None,
    allow_unencrypted_webhook: Annotated[
        bool, typer.Option("--allow-unencrypted-webhook", help="Let --webhook post by http to another machine.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="DIR",
            help="Keep all readings in this folder, which only you can enter, up to --keep and --keep-size; --at answers from it.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="TIME", help="With --record: how long readings are kept. Default: 168h, a week."),
    ] = None,
    keep_mb: Annotated[
        int | None,
        typer.Option(
            "--keep-size",
            metavar="MB",
            min=10,
            max=1_000_000,
            help="With --record: how many MB (of 1,000,000 bytes) are kept at most. Default: 500.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="With --record, and without --dsn: print what was read at that time, like 14:05, 'yesterday 14:05' or '90m ago'.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="With --dsn: print what the server still knows of the time since then, like yesterday, 14:05 or '90m ago'. Takes --log and --json.",
        ),
    ] = None,
    runs: RunsOption = RUNS,
) -> None:
    """Find out why a queue is slow, on a live server: who holds the horizon, what is blocked, dead rows, slow claims, stuck jobs.

    It reads system views, and counts the queue's jobs up to a limit. It writes nothing, takes no lock stronger than ACCESS SHARE, and after its
    first readings uses less than a hundredth of a core. Without --once it updates the report until Ctrl-C.

    Exit codes: 0 the server was read, whatever was found, and every expectation holds; 1 an expectation fails or is unknown; 2 bad input; 3 the
    server could not be read, or what a profile needs could not be read; 130 a recording was interrupted.

    For example:

        stallbench observe --dsn postgresql://reader@db.test/app
        stallbench observe --dsn postgresql://reader@db.test/app --once
        stallbench observe --dsn postgresql://reader@db.test/app --once --all
        stallbench observe --dsn postgresql://reader@db.test/app --once --json
        stallbench observe --dsn postgresql://reader@db.test/app --dsn replica1=postgresql://reader@db2.test/app --table public.my_jobs
        stallbench observe --dsn postgresql://reader@db.test/app --for 10m --report
        stallbench observe --dsn postgresql://reader@db.test/app --for 1m --expect queue.toml
        stallbench observe --dsn postgresql://reader@db.test/app --for 1m --expect queue.toml --report
        stallbench observe --dsn postgresql://reader@db.test/app --for 10m --record-profile profile.toml
        stallbench observe --dsn postgresql://reader@db.test/app --webhook OPS_WEBHOOK
        stallbench observe mcp --dsn postgresql://reader@db.test/app
        stallbench observe --dsn postgresql://reader@db.test/app --record history
        stallbench observe --record history --at "yesterday 14:05"
        stallbench observe --dsn postgresql://reader@db.test/app --since yesterday
    """
    if at is not None or since is not None:
        others: dict[str, object] = {"mcp": mode, "--once": once, "--for": for_, "--report": report, "--expect": expect}
        others |= {"--expose": expose, "--record-profile": record_profile, "--webhook": webhook, "--table": table}
        others |= {"--keep": keep, "--keep-size": keep_mb}
        others |= {"--since": since, "--dsn": dsn, "--log": log} if at is not None else {"--record": record}
        given = [option for option, value in others.items() if value]
        if at is not None:
            _answer(at, record, given, shows_all=all_, as_json=json)
        elif since is not None:
            _report_since(since, dsn or [], given, log=log, as_json=json)
        return
    from stallbench.observe.command import observe_continuously, observe_once
    from stallbench.observe.options import read_options

    options = read_options(
        dsn or [],
        every=every,
        tables=table or [],
        log=log,
        once=once,
        shows_all=all_,
        as_json=json,
        for_=for_,
        report=report,
        expect=expect,
        expose=expose,
        profile=record_profile,
        runs=runs,
        mode=mode,
        webhook=webhook,
        allows_unencrypted_webhook=allow_unencrypted_webhook,
        record=record,
        keep=keep,
        keep_mb=keep_mb,
    )
    if options.serves_mcp:
        require_mcp("stallbench observe mcp")
        from stallbench.observe.mcp_server import serve

        serve(options)
    elif once:
        observe_once(options)
    elif (recorded := observe_continuously(options)) is not None:
        with index_renewed(runs):
            if options.report:
                conclude_and_exit(recorded)
            _judge_and_exit(recorded)


def _answer(at: str, folder: Path | None, others: Sequence[str], *, shows_all: bool, as_json: bool) -> None:
    """Print what was read at a time. Raises `BadInputError` without a folder, or with options that are for a live server."""
    from stallbench.observe.past import answer, read_moment

    if folder is None:
        raise BadInputError('--at needs the folder of a history, like --record history --at "yesterday 14:05"')
    if others:
        raise BadInputError(f"--at cannot be combined with {', '.join(others)}: it reads a history, and no server")
    answer(folder, read_moment(at, datetime.now().astimezone()), shows_all=shows_all, as_json=as_json)


def _report_since(since: str, dsn: list[str], others: Sequence[str], *, log: Path | None, as_json: bool) -> None:
    """Print what a server still knows of a time. Raises `BadInputError` with options that are for a report of this moment."""
    from stallbench.observe.past import read_moment
    from stallbench.observe.since import report_since

    if others:
        raise BadInputError(f"--since cannot be combined with {', '.join(others)}: it reads a server once, and about the past")
    report_since(dsn, read_moment(since, datetime.now().astimezone(), "--since"), log=log, as_json=as_json)


def _judge_and_exit(folder: Path) -> NoReturn:
    """Judge the expectations from the samples alone, print the verdict, and exit with its code."""
    from stallbench.observe.judgement import judge_expectations
    from stallbench.report.terminal import print_findings, print_name_and_reason
    from stallbench.run.record import read_record

    verdict = judge_expectations(folder)
    console = print_findings(verdict)
    console.print()
    print_name_and_reason(console, verdict, read_record(folder / "run.json"))
    say(
        f"records and junit.xml: {shorten(folder)}; its report: {format_shell_command(['stallbench', 'report', shorten(folder)])}"
    )
    sys.exit(EXIT_PASS if verdict.verdict == "pass" else EXIT_FAIL)
