"""What a user gets for invalid input: one line for each issue, exit code 2, and nothing was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stallbench import PROJECT, cli
from stallbench.engines import ENGINES
from tests.unit.scenario_text import OF_POSTGRES

pytestmark = pytest.mark.slow

GOOD = """
summary = "Whatever."

[queue]
kind = "que"

[producers]
rate = 10

[[phases]]
name = "baseline"
duration = "5s"

[[phases]]
name = "longtx"
duration = "5s"
longrunners = [{ kind = "idle_writer" }]

[[expect]]
metric = "claim_ms.p95"
phase = "longtx"
relative_to = "baseline"
at_least = 5
"""


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


BAD_FILES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "empty; docs/add-a-scenario.md describes what a scenario contains"),
    "only spaces": (" \n\n", "empty; docs/add-a-scenario.md describes what a scenario contains"),
    "binary": (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "line 1: not UTF-8 text; expected a TOML file"),
    "latin-1": ('summary = "Größe"'.encode("latin-1"), "line 1: not UTF-8 text; expected a TOML file"),
    "huge": ("#" * 1_100_000, "1,100,000 bytes long; a scenario has at most 1,048,576"),
    "not TOML": ("summary: Whatever", "line 1, column 8: not valid TOML: expected '=' after a key in a key/value pair"),
    "a key twice": (
        changed("rate = 10", "rate = 10\nrate = 11"),
        "not valid TOML: this key is given twice; the line is `rate = 11`",
    ),
    "JSON": ('{"summary": "Whatever."}', "line 1, column 1: not valid TOML: invalid statement"),
    "no summary": (changed('summary = "Whatever."', ""), "summary is missing"),
    "no queue": (changed('[queue]\nkind = "que"', ""), "queue is missing"),
    "no phases": (GOOD.partition("[[phases]]")[0], "phases is missing"),
    "no rate": (changed("rate = 10", ""), "producers.rate is missing"),
    "no duration": (changed('duration = "5s"', ""), "phases[0].duration is missing"),
    "unknown section": (changed("[producers]", "[producer]"), "producer: unknown key; allowed are"),
    "unknown key": (changed("rate = 10", "rate = 10\nraet = 5"), "producers.raet: unknown key; allowed are"),
    "the nearest key": (changed("rate = 10", "rate = 10\npayload = 5"), 'did you mean "payload_bytes"?'),
    "a duration in parsecs": (
        changed('duration = "5s"', 'duration = "90 parsecs"'),
        'phases[0].duration is "90 parsecs"; expected a number with us, ms, s, m or h, like "90s"',
    ),
    "a duration without a unit": (changed('duration = "5s"', "duration = 5"), "phases[0].duration is 5; expected"),
    "a negative duration": (changed('duration = "5s"', 'duration = "-5s"'), 'phases[0].duration is "-5s"; expected'),
    "no time at all": (changed('duration = "5s"', 'duration = "0s"'), "expected more than 0s"),
    "more than a day": (changed('duration = "5s"', 'duration = "25h"'), "expected at most 24h"),
    "more than a day in all": (
        GOOD.replace('duration = "5s"', 'duration = "13h"'),
        "phases take 93,600 s together; expected at most 86,400 s, a day",
    ),
    "a rate in words": (changed("rate = 10", 'rate = "fast"'), 'producers.rate is "fast"; expected a number'),
    "a negative rate": (changed("rate = 10", "rate = -1"), "producers.rate is -1; expected at least 0"),
    "a rate that is none": (changed("rate = 10", "rate = nan"), "producers.rate is nan"),
    "an endless rate": (changed("rate = 10", "rate = inf"), "producers.rate is inf"),
    "a boolean for a number": (changed("rate = 10", "rate = true"), "producers.rate is true; expected a number"),
    "too many workers": (GOOD + "\n[workers]\ncount = 100000", "workers.count is 100000; expected at most 256"),
    "more workers than connections": (
        GOOD + "\n[workers]\ncount = 90",
        "workers.count is 90: with the other processes that makes about 111 connections, but the server accepts 100",
    ),
    "half a worker": (GOOD + "\n[workers]\ncount = 0.5", "workers.count is 0.5; expected a whole number"),
    "a section that is a number": ("database = 3\n" + GOOD, "database is 3; expected"),
    "an engine that is not there": (
        GOOD + '\n[database]\nengine = "oracle"',
        f'database.engine is "oracle"; expected one of {", ".join(ENGINES)}',
    ),
    "a version that is too old": (
        GOOD + "\n[database]\nversion = 9",
        "database.version is 9; expected a major version of PostgreSQL from 14 on, like 17",
    ),
    "a port for root": (GOOD + "\n[database]\nport = 80", "database.port is 80; expected at least 1,024"),
    "feedback without a replica": (
        GOOD + "\n[database]\nhot_standby_feedback = true",
        "database.hot_standby_feedback is given, but database.replicas is 0; it needs at least 1",
    ),
    "an unknown queue": (
        changed('kind = "que"', 'kind = "qeu"'),
        f'queue.kind is "qeu"; did you mean "que"? Expected one of {OF_POSTGRES}',
    ),
    "an option of another queue": (
        changed('kind = "que"', 'kind = "skip_locked"\nrecheck = false'),
        "queue.recheck: unknown key of skip_locked; allowed are kind, notify, notification, listen, listeners, listen_jitter, vacuum_every",
    ),
    "an option of the wrong type": (
        changed('kind = "que"', 'kind = "que"\nrecheck = "no"'),
        'queue.recheck is "no"; expected true or false',
    ),
    "a phase twice": (
        changed('"longtx"\nduration', '"baseline"\nduration'),
        'phases[0].name is "baseline", which is also the name of another phase',
    ),
    "a phase named for the whole run": (
        changed('"baseline"\nduration', '"run"\nduration'),
        'phases[0].name is "run", which means the whole run',
    ),
    "a phase without a proper name": (
        changed('"baseline"\nduration', '"Base Line"\nduration'),
        "expected a name of up to 63 small letters, digits, - and _",
    ),
    "nothing measured": (GOOD.replace('duration = "5s"', 'duration = "5s"\nmeasured = false'), "phases: none is measured"),
    "an unknown longrunner": (changed("idle_writer", "idle_writter"), 'did you mean "idle_writer"?'),
    "a longrunner nowhere": (
        changed('{ kind = "idle_writer" }', '{ kind = "idle_writer", on = "replica-1" }'),
        'phases[1].longrunners[0].on is "replica-1"; expected one of primary',
    ),
    "a longrunner on the wrong server": (
        changed('{ kind = "idle_writer" }', '{ kind = "replica_reader" }'),
        'phases[1].longrunners[0].on is "primary"; expected a replica, where replica_reader runs',
    ),
    "an unknown option of a longrunner": (
        changed('{ kind = "idle_writer" }', '{ kind = "slot", typ = "logical" }'),
        'phases[1].longrunners[0].typ: unknown key of slot; allowed are kind, on, may_be_ended, type; did you mean "type"?',
    ),
    "an unknown metric": (
        changed("claim_ms.p95", "claim_ms.p96"),
        'expect[0].metric is "claim_ms.p96"; expected claim_ms with one of .p50, .p95',
    ),
    "a metric without a statistic": (
        changed("claim_ms.p95", "claim_ms"),
        'expect[0].metric is "claim_ms"; expected claim_ms with one of .p50, .p95',
    ),
    "an expectation of a missing phase": (
        changed('phase = "longtx"', 'phase = "longtxx"'),
        'expect[0].phase is "longtxx"; expected one of baseline, longtx; did you mean "longtx"?',
    ),
    "an expectation relative to itself": (
        changed('relative_to = "baseline"', 'relative_to = "longtx"'),
        'expect[0].relative_to is "longtx", the phase itself; expected another phase',
    ),
    "an expectation without a bound": (changed("at_least = 5", ""), "expect[0] has no bound; expected at_least, at_most or both"),
    "bounds that exclude each other": (
        changed("at_least = 5", "at_least = 5\nat_most = 4"),
        "expect[0].at_least is 5, more than at_most, which is 4; no value meets both",
    ),
    "a variant that is no table": ("variants = 3\n" + GOOD, "variants is 3; expected tables, like [variants.skip_locked]"),
    "a broken variant": (GOOD + "\n[variants.x]\nworkers.count = -1", "variants.x.workers.count is -1; expected at least 0"),
    "a variant of a missing phase": (
        GOOD + '\n[variants.x]\nphase.nope.duration = "1s"',
        "variants.x.phase.nope: there is no such phase; expected one of baseline, longtx",
    ),
}

BAD_COMMANDS: dict[str, tuple[list[str], str]] = {
    "an unknown scenario": (["run", "longtxx"], 'there is no scenario "longtxx"'),
    "a missing path": (["run", "nowhere/longtx.toml"], 'nowhere/longtx.toml: there is no such file; did you mean "longtx"?'),
    "a folder": (["run", "./scenarios"], "scenarios: a folder; expected a scenario file, like scenarios/longtx.toml"),
    "an unknown variant": (["run", "longtx", "--variant", "skiplocked"], 'did you mean "skip_locked"?'),
    "a change without a value": (["run", "longtx", "--set", "workers.count"], "expected KEY=VALUE, like workers.count=4"),
    "a change of nothing": (["run", "longtx", "--set", "=4"], "expected KEY=VALUE, like workers.count=4"),
    "a change of an unknown key": (["run", "longtx", "--set", "workers.cuont=4"], 'did you mean "count"?'),
    "a change of a phase by its place": (
        ["run", "longtx", "--set", "phases=1"],
        "--set phases is 1; expected an array, like [{ .. }, { .. }]",
    ),
    "showing an unknown scenario": (["show", "longtxx"], 'did you mean "longtx"?'),
    "reporting an unknown run": (["report", "20200101T000000Z-longtx"], "no such run; expected a folder"),
    "reporting a folder that is no run": (["report", "scenarios"], "not a run's folder: it has no run.json"),
    "external servers that are to be kept": (
        ["run", "longtx", "--keep-servers", "--database", "queues", "--dsn", "primary=postgresql://me@db.test/queues"],
        "--keep-servers is only for servers that the bench starts",
    ),
    "a name that no path can have": (["run", "longtx", "--against", "a" * 300], "File name too long"),
    "an unknown command": (["runn", "longtx"], "No such command 'runn'"),
    "an unknown option": (["run", "longtx", "--fast"], "No such option: --fast"),
    "no scenario": (["run"], "Missing argument 'SCENARIO'"),
}


def run_command(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> int:
    """Run the command line in this process and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["stallbench", *arguments])
    monkeypatch.chdir(PROJECT)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def assert_reported_and_nothing_started(captured: str, expected: str, runs: Path) -> None:
    assert expected in " ".join(captured.replace("│", " ").split())
    assert "Traceback" not in captured
    assert not runs.exists()


@pytest.mark.parametrize(("content", "expected"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_scenario_file(
    content: str | bytes,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    runs = tmp_path / "runs"
    assert run_command(monkeypatch, ["run", str(path), "--runs", str(runs)]) == 2
    captured = capsys.readouterr()
    assert str(path) in captured.err
    assert_reported_and_nothing_started(captured.err, expected, runs)


@pytest.mark.parametrize(("arguments", "expected"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_a_bad_command_line(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = tmp_path / "runs"
    with_runs = [*arguments, "--runs", str(runs)] if arguments[0] in ("run", "report") else arguments
    assert run_command(monkeypatch, with_runs) == 2
    captured = capsys.readouterr()
    assert_reported_and_nothing_started(captured.err, expected, runs)


def test_the_good_file_is_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    assert run_command(monkeypatch, ["show", str(path)]) == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "secret.toml"
    path.write_text(GOOD)
    path.chmod(0)
    assert run_command(monkeypatch, ["run", str(path)]) == 2
    assert "cannot be read: Permission denied" in capsys.readouterr().err


def test_a_name_that_is_too_long_below_the_folder_of_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, ["report", "n" * 300, "--runs", str(tmp_path)]) == 2
    assert "File name too long" in capsys.readouterr().err


def test_the_report_of_a_folder_of_runs_names_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "20261121T031258Z-limit-longtx" / "20261121T031300Z-longtx"
    run.mkdir(parents=True)
    (run / "run.json").touch()
    assert run_command(monkeypatch, ["report", run.parent.name, "--runs", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"{run.parent}: not a run's folder: it has no run.json; it contains runs, like {run}\n"
