"""What a library's definition says of its worker processes: the settings in force, which may depend on options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stallbench.libraries import LibraryError, find_libraries, find_library
from stallbench.queues.record import LibraryRecord
from stallbench.run.recorder import describe_queue
from stallbench.scenario.file import read_scenario
from tests.libraries.made_up import read_changed


@pytest.mark.parametrize("name", sorted(find_libraries()))
def test_every_library_says_what_is_in_force_in_its_workers(name: str) -> None:
    assert list(find_library(name).compute_settings({})) == [
        "concurrency",
        "batch_size",
        "poll_interval",
        "rescue_interval",
        "pool",
    ]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("celery", {}, [1, 1, 1.0, "never", 15]),
        ("celery", {"threads": 3}, [3, 12, 1.0, "never", 15]),
        ("pg_boss", {"notify": False, "concurrency": 2}, [2, 10, 2.0, 60, 5]),
        ("pg_boss", {"polling_interval": 60}, [1, 10, 60, 60, 4]),
        ("db_scheduler", {"lock_and_fetch": True}, [10, 10, 10.0, 600, 10]),
        ("db_scheduler", {"dead_after": 6}, [10, 30, 10.0, 2, 10]),
        ("oban", {"rescue_interval": 5.0}, [10, 10, 1.0, 5.0, 10]),
    ],
)
def test_settings_in_force_depend_on_the_options(name: str, options: dict[str, object], expected: list[object]) -> None:
    assert list(find_library(name).compute_settings(options).values()) == expected


def test_settings_in_force_are_recorded() -> None:
    scenario = read_scenario("longtx", overrides=['queue={kind="library:celery",threads=2}'])
    library = describe_queue(scenario).library
    assert library is not None
    assert library.settings == {"concurrency": 2, "batch_size": 8, "poll_interval": 1.0, "rescue_interval": "never", "pool": 15}


def test_two_queues_have_no_common_order() -> None:
    orders = [
        describe_queue(read_scenario("longtx", overrides=[f'queue={{kind="library:river",second_queue={both}}}'])).ordered
        for both in ("false", "true")
    ]
    assert orders == [True, False]


def test_a_record_of_a_library_without_settings_is_readable() -> None:
    record = LibraryRecord.model_validate(
        {"title": "River", "version": "1", "language": "go", "completion": "..", "rescue": ".."}
    )
    assert record.settings == {}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('option = "concurrency"', 'option = "threads"', 'there is no option "threads"; there are concurrency, polling_interval'),
        ("value = 4,", 'value = 4, option = "concurrency",', "has both value and option, or none"),
        ("value = 4,", "value = 4, plus = 1,", "has times, divided_by or plus without option"),
        ("value = 4,", 'value = 4, only_if = "concurrency",', "pool: the last value has only_if"),
        ("value = 4,", 'value = "four",', "settings.pool.0.value"),
        ("pool = {", "pools = {", "settings.pool: Field required"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(LibraryError, match=re.escape(message)):
        read_changed(tmp_path, before, after)


def test_settings_that_depend_on_text_are_refused(tmp_path: Path) -> None:
    alternatives = '[{ value = 1, only_if = "mode", source = "a" }, { value = 4, source = "b" }]'
    option = '[options.mode]\ndefault = "fast"\ndescription = "a mode"\n\n[options.concurrency]'
    with pytest.raises(LibraryError, match='the option "mode" is text; only_if expects a number, or true or false'):
        read_changed(tmp_path, "pool = {", f"pool = {alternatives} # {{", "[options.concurrency]", option)
