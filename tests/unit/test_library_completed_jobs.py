"""Which libraries can have completed jobs of earlier days in their tables, and what a user is told of the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.libraries import LibraryError, find_libraries, find_library
from stallbench.libraries.statements import CompletedJobs
from stallbench.queues import find_queue
from stallbench.queues.library_queue import LibraryQueue
from stallbench.scenario.file import ScenarioError, read_scenario
from tests.libraries.made_up import APPLICATION, read_changed


class CountingConnection:
    """Stands in for the connection of a server that has no row after the statements that add rows."""

    def __init__(self, rows: list[tuple[object, ...]]) -> None:
        self.rows = rows
        self.added: list[int] = []

    def execute(self, statement: str, parameters: dict[str, int] | None = None) -> CountingConnection:
        self.added += [parameters["count"]] if parameters else []
        return self

    def fetchall(self) -> list[tuple[object, ...]]:
        return self.rows


def open_river(rows: list[tuple[object, ...]]) -> tuple[LibraryQueue, CountingConnection]:
    queue_type, connection = find_queue("library:river"), CountingConnection(rows)
    queue = queue_type(connection, queue_type.options_type())
    assert isinstance(queue, LibraryQueue)
    return queue, connection


def refuse(*overrides: str, scenario: str = "retention") -> str:
    with pytest.raises(ScenarioError) as raised:
        read_scenario(scenario, overrides=overrides)
    return str(raised.value)


@pytest.mark.parametrize("name", sorted(find_libraries()))
def test_a_library_has_completed_jobs_if_it_keeps_them(name: str) -> None:
    library = find_library(name)
    assert library.retention is not None
    assert library.retention.kept == (library.completed_jobs is not None)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ('count = "SELECT"\ndeleted_by = "workers"', "completed_jobs.add: Field required"),
        ('add = "INSERT"\ncount = "SELECT"\ndeleted_by = "workers"', "completed_jobs.add: String should match pattern"),
        (
            'add = "SELECT %(count)s"\ncount = "SELECT"\ndeleted_by = "cron"',
            "completed_jobs.deleted_by: Input should be 'workers', 'command' or 'nothing'",
        ),
    ],
)
def test_an_invalid_definition_of_completed_jobs(tmp_path: Path, after: str, message: str) -> None:
    without = find_library("procrastinate").folder.joinpath("library.toml").read_text()
    table = without[without.index("[completed_jobs]") : without.index("[settings]")]
    with pytest.raises(LibraryError, match=re.escape(message)):
        read_changed(tmp_path, table, f"[completed_jobs]\n{after}\n")


def test_a_library_that_deletes_completed_jobs_has_none(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"completed_jobs: retention\.kept is false; expected true, or no completed_jobs"):
        read_changed(tmp_path, "kept = true", "kept = false")


def test_the_number_of_completed_jobs_is_an_option_of_libraries_that_keep_them() -> None:
    queue = 'queue={kind="library:oban",retained=200000}'
    assert read_scenario("retention", overrides=[queue]).queue.options == {"retained": 200_000}
    less = refuse('queue={kind="library:oban",retained=-1}')
    assert "queue.retained is -1; expected at least 0" in less


def test_a_library_that_keeps_no_completed_jobs_says_so() -> None:
    reason = "Laravel's database queue keeps no completed jobs: the job's row is deleted when it is complete"
    assert f"queue.retained is 5, but {reason}" in refuse('queue={kind="library:laravel",retained=5}')


def test_an_application_whose_definition_has_no_completed_jobs_says_so() -> None:
    said = refuse(f'queue={{kind="library:{APPLICATION}",retained=5}}')
    assert "queue.retained is 5, but the definition of Shop has no completed_jobs" in said


def test_completed_jobs_are_refused_on_another_engine() -> None:
    said = refuse('queue={kind="library:django_tasks_db",retained=5}', scenario="laravel-deadlock")
    assert "queue.retained is 5, which django-tasks-db has only on postgres" in said


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        ("library:river", "which runs a command: River needs none: its workers delete completed jobs by themselves"),
        ("library:celery", "Celery with a database as broker has none: nothing deletes its completed jobs"),
        ("library:laravel", "Laravel's database queue keeps no completed jobs"),
        ("status_column", 'which runs a command of a published library, and "status_column" is none; use delete_rows'),
    ],
)
def test_a_queue_without_a_command_that_deletes_completed_jobs_refuses_to_run_it(queue: str, reason: str) -> None:
    said = refuse(f'queue={{kind="{queue}"}}', 'maintenance=[{kind="prune"}]')
    assert 'maintenance[0].kind is "prune", ' in said
    assert reason in said


def test_completed_jobs_are_added_in_transactions_of_a_moderate_size_and_counted() -> None:
    queue, connection = open_river([(0,)])
    with pytest.raises(
        NotCarriedOutError, match=r"completed_jobs\.add was to add 50000 jobs; completed_jobs\.count found 0 more"
    ):
        queue.add_completed_jobs(50_000)
    assert connection.added == [20_000, 20_000, 10_000]


def test_a_count_of_completed_jobs_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, _ = open_river([("many", 1)])
    completed = CompletedJobs(add="SELECT %(count)s", count="SELECT 'many', 1", deleted_by="nothing")
    monkeypatch.setattr(type(queue), "library", queue.library.model_copy(update={"completed_jobs": completed}))
    with pytest.raises(NotCarriedOutError, match=r"completed_jobs\.count returned .*'many'.*; expected one row with the number"):
        queue.count_completed_jobs()
