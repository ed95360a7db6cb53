"""Periodic jobs of a library: what its definition must say, and which scenarios are refused without them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stallbench.libraries import LibraryError, find_libraries
from stallbench.run.recorder import describe_queue
from stallbench.scenario.file import ScenarioError, read_scenario
from tests.libraries.made_up import read_changed

WITH_PERIODIC_JOBS = [name for name, library in find_libraries().items() if library.periodic_jobs]


def test_periodic_jobs_are_described_if_and_only_if_there_is_an_option_for_them(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"has only one of periodic_jobs and options\.periodic; expected both, or none"):
        read_changed(tmp_path, "\nperiodic_jobs = ", "\n# periodic_jobs = ")


@pytest.mark.parametrize(
    ("written", "instead"), [("default = 0\none_of", "default = 60\none_of"), ("one_of = [0, 1, 2, 5, 10, 30, 60]\n", "")]
)
def test_a_library_has_no_periodic_job_by_default_and_names_its_periods(tmp_path: Path, written: str, instead: str) -> None:
    message = r"options\.periodic: expected the default 0, for no periodic job, and one_of with the periods in seconds"
    with pytest.raises(LibraryError, match=message):
        read_changed(tmp_path, written, instead)


@pytest.mark.parametrize("name", WITH_PERIODIC_JOBS)
def test_a_period_of_a_minute_is_possible_in_every_library(name: str) -> None:
    queue = f'queue={{kind="library:{name}", periodic=60}}'
    assert describe_queue(read_scenario("cron-twice-library", overrides=[queue])).options["periodic"] == 60


def test_a_period_that_the_scheduler_of_the_library_does_not_have_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"queue\.periodic is 2; expected 0 or 60"):
        read_scenario("cron-twice-library", overrides=['queue={kind="library:oban", periodic=2}'])


def test_a_scenario_that_expects_periodic_jobs_refuses_a_library_without_them() -> None:
    able = ", ".join(f"library:{name}" for name in WITH_PERIODIC_JOBS)
    said = f'is "fired.count", but library:celery has no periodic jobs; set queue.kind to one of {able}, and queue.periodic'
    with pytest.raises(ScenarioError, match=re.escape(said)):
        read_scenario("cron-twice-library", overrides=["queue.kind=library:celery"])


def test_a_scenario_that_expects_periodic_jobs_says_by_which_option_the_library_inserts_them() -> None:
    said = 'is "fired.count", but [queue] asks for no periodic job; add periodic = 60 to it'
    with pytest.raises(ScenarioError, match=re.escape(said)):
        read_scenario("cron-twice-library", overrides=["queue.kind=library:river"])
