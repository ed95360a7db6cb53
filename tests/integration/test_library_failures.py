"""An adapter or a definition that is wrong: one message says what and where, and no process is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.libraries import adapter, find_library
from stallbench.libraries.installation import installation_of, require_installed
from stallbench.libraries.statements import OtherJobs
from stallbench.queues import NewJob, RefusedError
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue_client import opened_queue
from stallbench.run.backlog import take_final_snapshot
from stallbench.waiting import wait_until
from tests.integration.conftest import EmptyOn
from tests.libraries.made_up import LEAVE_A_CHILD, find_processes, make_application
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

Opened = Callable[..., LibraryQueue]


@pytest.fixture
def opened(empty_on: EmptyOn, tmp_path: Path) -> Iterator[Opened]:
    """Opens the application with changes as a queue on an empty database."""
    with ExitStack() as stack:

        def open_(**changes: str) -> LibraryQueue:
            kind = f"library:{make_application(tmp_path, **changes)}"
            queue = stack.enter_context(opened_queue(kind, {}, empty_on("postgres"), "producer-1"))
            assert isinstance(queue, LibraryQueue)
            return queue

        yield open_


def assert_no_process_is_left(tmp_path: Path) -> None:
    assert wait_until(lambda: not find_processes(tmp_path / "shop"), within_s=PATIENCE_S, every_s=0.05), find_processes(
        tmp_path / "shop"
    )


def test_an_installation_of_packages_that_fails_leaves_nothing(tmp_path: Path) -> None:
    shop = make_application(tmp_path)
    (shop / "requirements.lock").write_text("no-hash==1\n")
    library = find_library(str(shop))
    said: list[str] = []
    with pytest.raises(NotCarriedOutError, match=r"^Shop could not be installed: ") as raised:
        require_installed(library, said.append)
    assert "--require-hashes" in str(raised.value)
    assert said == ["installing Shop, once"]
    assert not installation_of(library).exists()


def test_tables_that_cannot_be_created(opened: Opened, tmp_path: Path) -> None:
    queue = opened(install=f"{LEAVE_A_CHILD}\nprint('no permission')\nsys.exit(3)")
    with pytest.raises(NotCarriedOutError) as raised:
        queue.install()
    assert str(raised.value) == "Shop could not create its tables (exit code 3); it printed last:\n  no permission"
    assert_no_process_is_left(tmp_path)


def test_a_creation_of_tables_that_hangs(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_INSTALL_S", 1.0)
    queue = opened(install=f"{LEAVE_A_CHILD}\nimport time\ntime.sleep(1000)")
    with pytest.raises(NotCarriedOutError, match=r"^Shop did not create its tables within 1 s; it printed nothing$"):
        queue.install()
    assert_no_process_is_left(tmp_path)


GARBAGE = r"""
    sys.stdout.buffer.write(b"\xff\xfe\n[1]\n{\"level\": \"info\", \"error\": null}\n" + b"[" * 100_000 + b"\n")
    sys.stdout.buffer.flush()
    enqueue = shop.enqueue
    shop.enqueue = lambda mails: (print('{"msg": "enqueuing"}', flush=True), enqueue(mails))
"""


def test_a_producer_that_prints_garbage_is_understood_and_its_output_is_kept(
    opened: Opened, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    queue = opened(produce=GARBAGE)
    queue.install()
    queue.prepare_to_enqueue()
    ids = queue.enqueue([NewJob(payload='{"n":1}'), NewJob(payload='{"n":2}')])
    assert dict(queue.job_ids()) == dict.fromkeys(ids, False)
    printed = capfd.readouterr().err
    assert '{"level": "info", "error": null}' in printed
    assert '{"msg": "enqueuing"}' in printed
    queue.close()
    assert_no_process_is_left(tmp_path)


def test_a_producer_that_exits_is_an_error_of_the_driver(opened: Opened) -> None:
    queue = opened(produce="sys.exit(3)")
    with pytest.raises(psycopg.Error, match=r"^the producer of Shop has ended with exit code 3$"):
        queue.prepare_to_enqueue()


REFUSALS = """
    from stallbench_contract import JobsRefusedError
    def refuse(): raise JobsRefusedError("the outbox is full")
    enqueue = shop.enqueue
    shop.enqueue = lambda mails: refuse() if len(mails) > 1 else enqueue(mails)
"""


def test_jobs_that_the_application_refuses_are_not_in_its_queue(opened: Opened) -> None:
    queue = opened(produce=REFUSALS)
    queue.install()
    with pytest.raises(RefusedError, match=r"^the outbox is full$"):
        queue.enqueue([NewJob(payload="{}"), NewJob(payload="{}")])
    ids = queue.enqueue([NewJob(payload="{}")])
    assert [job_id for job_id, _ in queue.job_ids()] == list(ids)


def test_a_queue_that_is_opened_again_does_not_use_a_number_twice(empty_on: EmptyOn, tmp_path: Path) -> None:
    kind, endpoint = f"library:{make_application(tmp_path)}", empty_on("postgres")
    ids: list[int] = []
    for attempt in range(2):
        with opened_queue(kind, {}, endpoint, "producer-1") as queue:
            if attempt == 0:
                queue.install()
            ids += queue.enqueue([NewJob(payload="{}"), NewJob(payload="{}")])
            assert sorted(job_id for job_id, _ in queue.job_ids()) == ids
    assert len(set(ids)) == 4


def test_what_a_producer_that_hangs_has_started_is_killed_with_it(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_ANSWER_S", 1.0)
    queue = opened(produce=f"{LEAVE_A_CHILD}\nimport time\nshop.enqueue = lambda _: time.sleep(1000)")
    queue.install()
    with pytest.raises(psycopg.Error, match=r"^the producer of Shop did not answer within 1 s$"):
        queue.enqueue([NewJob(payload="{}")])
    assert_no_process_is_left(tmp_path)


def test_a_producer_that_hangs_is_killed(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_ANSWER_S", 1.0)
    queue = opened(
        produce="import time\nshop.enqueue = lambda _: [print('busy', flush=True) or time.sleep(0.1) for _ in range(999)]"
    )
    queue.install()
    with pytest.raises(psycopg.Error, match=r"^the producer of Shop did not answer within 1 s$"):
        queue.enqueue([NewJob(payload="{}")])
    assert len(queue.unconfirmed_ids) == 1, "the job may be in the queue"
    assert_no_process_is_left(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"snapshot": "SELECT n, false FROM letters"}, r'sql\.snapshot failed: relation "letters" does not exist'),
        (
            {"snapshot": "SELECT id FROM mails"},
            "sql.snapshot returned the columns id; expected for each job its number, and whether",
        ),
        ({"backlog": "SELECT id, 1 FROM mails"}, r"sql.backlog returned \[\]; expected one row: the ready jobs, and the age"),
        ({"backlog": "SELECT 'many', null"}, r"sql.backlog returned \[\('many', None\)\]; expected one row"),
    ],
)
def test_a_statement_that_fails_is_found_before_the_load(opened: Opened, changes: dict[str, str], message: str) -> None:
    with pytest.raises(NotCarriedOutError, match=rf"shop/library\.toml: {message}"):
        opened(**changes).install()


def test_a_snapshot_without_numbers_is_refused(opened: Opened) -> None:
    queue = opened(snapshot="SELECT (mail->>'number')::bigint, false FROM mails")
    queue.install()
    queue.enqueue([NewJob(payload="{}")])
    with pytest.raises(NotCarriedOutError, match=r"sql\.snapshot returned \(None, False\); expected for each job its number"):
        list(queue.job_ids())


def test_a_final_snapshot_that_fails_leaves_no_half_of_it(opened: Opened, tmp_path: Path) -> None:
    queue = opened(snapshot="SELECT 1 / (2 - count(*)), false FROM mails")
    queue.install()
    queue.enqueue([NewJob(payload="{}"), NewJob(payload="{}")])
    with pytest.raises(NotCarriedOutError, match=r"^the final snapshot of the queue failed: division by zero$"):
        take_final_snapshot(queue, tmp_path / "final_snapshot.csv")
    assert not (tmp_path / "final_snapshot.csv").exists()


def test_a_count_of_other_jobs_that_is_no_number(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = opened()
    other_jobs = OtherJobs(ready="SELECT %(count)s", count="SELECT 'many', 1", remove="SELECT 1")
    monkeypatch.setattr(type(queue), "library", queue.library.model_copy(update={"other_jobs": other_jobs}))
    with pytest.raises(NotCarriedOutError, match=r"library\.toml: other_jobs\.count returned .*'many'.*; expected one row with"):
        queue.count_other_jobs()
