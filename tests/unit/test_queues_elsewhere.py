"""A queue in a file of its user's: found, or told what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.queues import NoQueueError, find_queue, find_queues
from stallbench.scenario.file import read_scenario
from stallbench.scenario.toml import ScenarioError
from tests.defective_queues.claims_without_lock import ClaimsWithoutLock

DEFECTIVE = Path(__file__).parent.parent / "defective_queues" / "claims_without_lock.py"


def test_one_of_the_bench_is_found_by_its_kind() -> None:
    assert find_queue("que") is find_queues()["que"]


def test_one_elsewhere_is_found_by_its_file_and_class() -> None:
    assert find_queue(f"{DEFECTIVE}:ClaimsWithoutLock") is ClaimsWithoutLock


def test_a_relative_path_counts_from_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DEFECTIVE.parent)
    assert find_queue(f"{DEFECTIVE.name}:ClaimsWithoutLock") is ClaimsWithoutLock


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("nowhere.py:MyQueue", None, "names a file that does not exist: "),
        ("no_class.py", "", "names a file, but no class in it; expected path/to/file.py:ClassName"),
        (
            "another_class.py:MyQueue",
            "class Other: pass",
            "names no queue of that file; it has none: a queue is a subclass of Queue",
        ),
        (
            "misspelt_class.py:MyQeue",
            "from stallbench.queues.postgres_queue import PostgresQueue\nclass MyQueue(PostgresQueue): pass",
            "names no queue of that file; it has MyQueue",
        ),
        (
            "only_a_base_class.py:MyQueue",
            "from stallbench.queues import Queue",
            "names no queue of that file; it has none: a queue is a subclass of Queue",
        ),
        ("broken_queue.py:MyQueue", "import nothing_like_that", "names a file that cannot be loaded: ModuleNotFoundError: "),
        (
            "half_a_queue.py:MyQueue",
            "from stallbench.queues import Queue\nclass MyQueue(Queue): pass",
            "is not a complete queue: it does not define backlog, claim, complete, enqueue, fail, install, job_ids, summary, ",
        ),
        ("ends.py:MyQueue", "import sys; sys.exit(0)", "names a file that cannot be loaded: SystemExit: 0"),
        ("queue.py:MyQueue", "import sys; sys.exit(0)", "names a file that cannot be loaded: SystemExit: 0"),
        ("json.py:MyQueue", "", "names no queue of that file; it has none: a queue is a subclass of Queue"),
        ("json.py:MyQueue", "import nothing_like_that", "names a file that cannot be loaded: ModuleNotFoundError: "),
    ],
)
def test_an_object_that_is_no_queue_is_refused(tmp_path: Path, name: str, content: str | None, wrong: str) -> None:
    if content is not None:
        (tmp_path / name.partition(":")[0]).write_text(content)
    with pytest.raises(NoQueueError) as raised:
        find_queue(f"{tmp_path}/{name}")
    assert str(raised.value).startswith(wrong)
    assert "PostgresQueue" not in str(raised.value)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('tables = "my_jobs"', "tables is 'my_jobs'; expected a tuple of names, like (\"my_jobs\",)"),
        ("indexes = (1,)", "indexes is (1,); expected a tuple of names"),
        ("summary = 3", "summary is 3; expected a text"),
        ('promise = "at least once"', "promise is 'at least once'; expected one of Promise.AT_LEAST_ONCE, Promise.AT_MOST_ONCE"),
        ('engines = "postgres"', "engines is 'postgres'; expected a frozenset of names, like frozenset({\"postgres\"})"),
        ("options_type = dict", "options_type is <class 'dict'>; expected a subclass of QueueOptions"),
        ('ordered = "no"', "ordered is 'no'; expected True or False"),
        ('claim_pattern = "FROM ("', "claim_pattern is 'FROM ('; expected a regular expression"),
    ],
)
def test_an_attribute_of_another_type_is_refused_with_what_is_expected(tmp_path: Path, line: str, wrong: str) -> None:
    path = tmp_path / f"{line.partition(' ')[0]}_queue.py"
    path.write_text(f"from stallbench.queues.skip_locked import SkipLocked\nclass MyQueue(SkipLocked):\n    {line}\n")
    with pytest.raises(NoQueueError) as raised:
        find_queue(f"{path}:MyQueue")
    assert str(raised.value).startswith(f"is not a complete queue: {wrong}")
    assert str(raised.value).endswith("; see docs/add-a-queue.md")


def test_a_scenario_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ScenarioError, match=r"queue.kind is \"nowhere.py:MyQueue\", which names a file that does not exist: /"):
        read_scenario("baseline", overrides=["queue.kind=nowhere.py:MyQueue"])


def test_its_engines_are_its_own() -> None:
    with pytest.raises(ScenarioError, match=r"which runs on postgres, not on sqlite"):
        read_scenario("baseline", overrides=[f"queue.kind={DEFECTIVE}:ClaimsWithoutLock", "database.engine=sqlite"])
