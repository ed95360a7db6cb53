"""`stallbench conform`: one outcome for each promise of a queue's operations, whatever the queue does. The crash points are in tests/end_to_end."""

from __future__ import annotations

import json
import os
import signal
from io import StringIO
from pathlib import Path

import pytest
from junitparser import JUnitXml
from rich.console import Console

from stallbench import PROJECT
from stallbench.commands.conform import conform
from stallbench.errors import NotCarriedOutError
from stallbench.queues import NewJob
from stallbench.records.endpoint import Endpoint
from stallbench.run.view import RunView
from stallbench.servers.empty_databases import EmptyDatabases
from stallbench.studies.conformance.conformance import carry_out_conformance
from stallbench.studies.conformance.promise import OpenQueue, QueuePromise
from stallbench.studies.conformance.promise_outcome import PromiseOutcome
from stallbench.studies.conformance.promises import PROMISES
from stallbench.studies.torture.plan import plan_torture
from stallbench.waiting import wait_until
from tests.libraries.made_up import make_application
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

FAILS_LATER = "a failed job is kept and delayed"
EXAMPLE = PROJECT / "examples" / "first-project" / "my_queue.py"
DEFECTIVE = """
from stallbench.queues.skip_locked import SkipLocked


class Defective(SkipLocked):
    statements = SkipLocked.statements | {CHANGES}
    CLAIM_PATTERN
"""


def try_operations(kind: str, folder: Path) -> dict[str, PromiseOutcome]:
    plan = plan_torture(kind, seed=1, overrides=(), points=(), action=None)
    with RunView(Console(file=StringIO())) as view:
        _, record = carry_out_conformance(plan, folder / "runs", view, with_crash_points=False)
    assert record.status == "completed", record.reason
    return {each.name: each for each in record.list_promises()}


def write_defective(folder: Path, changes: str) -> str:
    (folder / "defective.py").write_text(DEFECTIVE.replace("{CHANGES}", changes).replace("    CLAIM_PATTERN\n", ""))
    return f"{folder}/defective.py:Defective"


def test_the_queue_that_init_creates_keeps_every_promise_that_it_gives(tmp_path: Path) -> None:
    found = try_operations(f"{EXAMPLE}:MyQueue", tmp_path)
    assert {each.result for each in found.values()} == {"pass", "info"}
    assert {name: each.reason for name, each in found.items() if each.result == "info"} == {
        "a job whose claim has expired counts as waiting and is given to another worker": "its claims do not expire",
        "a failed job is kept and offered again": "it delays a failed job",
        "a job without an attempt left is not offered again": "it offers a failed job again and again",
        "a job whose key another one has is refused": "its jobs have no keys",
        "a worker that stops gives back what it has not begun": "a claim takes one job",
        "a worker whose claim has expired takes nothing from the next one": "its claims do not expire",
        "no job is overtaken for ever": "its jobs are claimed in their order",
        "an iteration of the scheduler loses, repeats and releases no job": "it has no scheduler",
    }


def test_the_command_says_of_a_broken_promise_what_was_found_and_what_was_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = '{"claim": "SELECT job_id, attempts, payload FROM skip_locked_jobs ORDER BY job_id LIMIT 1"}'
    junit = tmp_path / "junit.xml"
    with pytest.raises(SystemExit) as ended:
        conform(write_defective(tmp_path, claim), seed=1, crash_points=False, junit=junit, runs=tmp_path / "runs")
    assert ended.value.code == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "broken a claimed job is given to no other worker: the job of a claim while only the newest one is ready: found 1; expected 2"
        in said
    )
    assert "holds a claim carries the payload" in said
    cases = {case.name: case.result for suite in JUnitXml.fromfile(str(junit)) for case in suite}
    assert cases["a claimed job is given to no other worker"]
    assert not cases["a claim carries the payload"]


@pytest.fixture
def only_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """The promise of failed jobs, one before it and one after it: each takes a database of its own."""
    some = ("a claim carries the payload", FAILS_LATER, "the age of the oldest job is known")
    promises = [each for each in PROMISES if each.name in some]
    assert len(promises) == len(some)
    monkeypatch.setattr("stallbench.studies.conformance.operations.PROMISES", promises)


@pytest.mark.usefixtures("only_some")
def test_what_a_queue_raises_breaks_the_promise_in_which_it_does(tmp_path: Path) -> None:
    found = try_operations(write_defective(tmp_path, '{"fail": "UPDATE no_such_table SET attempts = $1 WHERE $2"}'), tmp_path)
    assert found[FAILS_LATER].result == "fail"
    assert found[FAILS_LATER].reason.startswith('UndefinedTable: relation "no_such_table" does not exist')
    assert [name for name, each in found.items() if each.result == "fail"] == [FAILS_LATER]


@pytest.mark.usefixtures("only_some")
def test_a_queue_that_ends_the_process_breaks_the_promise_and_does_not_decide_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(
        "import sys\nfrom stallbench.queues.skip_locked import SkipLocked\n\n\n"
        "class Ends(SkipLocked):\n    def fail(self, claim, error):\n        sys.exit(0)\n"
    )
    found = try_operations(f"{tmp_path}/ends.py:Ends", tmp_path)
    assert {name: each.reason for name, each in found.items() if each.result == "fail"} == {FAILS_LATER: "SystemExit: 0"}


def test_a_server_that_ends_breaks_no_promise_of_the_queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    used: list[EmptyDatabases] = []
    give = EmptyDatabases.give

    def remember_and_give(databases: EmptyDatabases) -> Endpoint:
        used.append(databases)
        return give(databases)

    def kill_the_server(open_one: OpenQueue) -> None:
        (server,) = used[0].processes.of_role("server")
        os.kill(server.pid, signal.SIGKILL)
        assert wait_until(lambda: server.poll() is not None, within_s=PATIENCE_S, every_s=0.05)
        open_one().enqueue([NewJob(payload="{}")])

    promise = QueuePromise(name="anything", why_not=lambda _: None, needs_claim=True, check=kill_the_server)
    monkeypatch.setattr(EmptyDatabases, "give", remember_and_give)
    monkeypatch.setattr("stallbench.studies.conformance.operations.PROMISES", [promise])
    with pytest.raises(AssertionError, match="server primary was ended by SIGKILL"):
        try_operations(f"{EXAMPLE}:MyQueue", tmp_path)


@pytest.mark.parametrize(
    ("end", "why", "code"),
    [(KeyboardInterrupt(), "interrupted", 130), (NotCarriedOutError("the server has ended"), "the server has ended", 3)],
)
def test_of_an_interrupted_test_the_files_have_what_was_tried_and_that_it_was_not_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], end: BaseException, why: str, code: int
) -> None:
    def interrupt(open_one: OpenQueue) -> None:
        raise end

    promises = [
        QueuePromise(name=name, why_not=lambda _: None, needs_claim=True, check=check)
        for name, check in {"first": lambda _: None, "second": interrupt, "third": lambda _: None}.items()
    ]
    monkeypatch.setattr("stallbench.studies.conformance.operations.PROMISES", promises)
    junit, runs = tmp_path / "junit.xml", tmp_path / "runs"
    with pytest.raises(SystemExit) as ended:
        conform(f"{EXAMPLE}:MyQueue", seed=1, junit=junit, runs=runs)
    assert ended.value.code == code
    expected = {"first": "pass", "every promise was tried": "unknown"}
    (record,) = runs.glob("*/study.json")
    assert {each["name"]: each["result"] for each in json.loads(record.read_text())["promises"]} == expected
    (suite,) = JUnitXml.fromfile(str(junit))
    assert [case.name for case in suite] == list(expected)
    assert (suite.failures, suite.errors) == (0, 1)
    assert f"unknown       every promise was tried: {why}" in capsys.readouterr().out


def test_a_library_is_tried_where_it_needs_no_claim(tmp_path: Path) -> None:
    found = try_operations(f"library:{make_application(tmp_path)}", tmp_path)
    assert {each.result for each in found.values()} == {"pass", "info"}
    assert found["a snapshot finds every one of many jobs"].result == "pass"
    assert found["a claim carries the payload"].reason.startswith("the library claims in its own worker")
