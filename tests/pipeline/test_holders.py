"""Who held the horizon and for how long, and what was done to the run on purpose."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.pipeline.conftest import MakeTables, Tables
from tests.synthetic_run import SyntheticRun, at_ns

IDLE = {"application": "stallbench:longrunner:idle_writer-1", "pid": 4711, "state": "idle in transaction"}


@pytest.fixture(scope="module")
def tables(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """An idle writer from 2.5 to 7 s, behind it a prepared transaction; one worker's backend that is seen twice; a reader on a replica."""
    run = SyntheticRun(tmp_path_factory.mktemp("holders") / "run", phases={"baseline": 5, "longtx": 5})
    run.longrunner("idle_writer-1", phase="longtx", from_s=2.6, to_s=7.2)
    run.longrunner(
        "prepared-1", phase="longtx", from_s=4, to_s=None, evidence={"kind": "prepared", "key": "stallbench_prepared_1"}
    )
    run.longrunner("replica_reader-1", phase="longtx", from_s=4, to_s=8, on="replica-1", verified_ns=None, active_to_end=False)
    for second in range(10):
        at_s = second + 0.5
        holders: dict[str, dict[str, Any]] = {}
        if 3 <= second < 7:
            holders["backend:4711:99"] = {**IDLE, "age_s": at_s - 2.5, "age_xids": 500 * (second - 2)}
        if 5 <= second < 9:
            holders["prepared:stallbench_prepared_1"] = {"age_s": at_s - 5, "age_xids": 10, "state": "prepared"}
        if second in (1, 8):
            holders["backend:5000:1"] = {"application": "stallbench:worker-1", "pid": 5000, "age_s": 0.01}
        if second == 8:
            holders["backend:77:7"] = {"source": "replica-1", "pid": 77, "age_s": 1, "via": "feedback"}
        if second == 9:
            holders["slot:left_behind"] = {"catalog_only": 1, "age_xids": 7}
        run.sample_horizon(at_s=at_s, holders=holders)
    return make(run.write(final_snapshot={}))


@pytest.fixture(scope="module")
def holders(tables: Tables) -> pd.DataFrame:
    return tables("holders")


def stay(holders: pd.DataFrame, holder: str) -> dict[str, Any]:
    (found,) = holders[holders.holder == holder].to_dict("records")
    return {str(key): value for key, value in found.items()}


def test_a_stay_begins_with_its_transaction_and_ends_when_it_was_last_seen(holders: pd.DataFrame) -> None:
    idle = stay(holders, "4711:99")
    assert (idle["from_s"], idle["to_s"]) == (2.5, 6.5)
    assert (idle["from_ns"], idle["to_ns"]) == (at_ns(2.5), at_ns(6.5))


def test_a_stay_has_what_the_server_reported_about_the_holder(holders: pd.DataFrame) -> None:
    idle = stay(holders, "4711:99")
    assert (idle["server"], idle["kind"], idle["pid"], idle["state"]) == ("primary", "backend", 4711, "idle in transaction")
    assert (idle["max_age_s"], idle["max_age_xids"], idle["catalog_only"]) == (4.0, 2000, False)


def test_it_was_the_oldest_from_each_sample_that_shows_this_to_the_next(holders: pd.DataFrame) -> None:
    assert stay(holders, "4711:99")["oldest_s"] == 4
    assert stay(holders, "stallbench_prepared_1")["oldest_s"] == 2


def test_a_session_that_returns_in_another_transaction_has_a_new_stay(holders: pd.DataFrame) -> None:
    worker = holders[holders.holder == "5000:1"]
    assert list(worker.to_s) == [1.5, 8.5]


def test_a_longrunner_is_recognised_by_its_connection_or_by_what_it_left(holders: pd.DataFrame) -> None:
    named = holders.longrunner.where(holders.longrunner.notna(), None)
    assert dict(zip(holders.holder, named, strict=True)) == {
        "4711:99": "idle_writer-1",
        "stallbench_prepared_1": "prepared-1",
        "5000:1": None,
        "77:7": None,
        "left_behind": None,
    }


def test_a_holder_on_a_replica_has_the_way_in_which_it_reaches_the_primary(holders: pd.DataFrame) -> None:
    reader = stay(holders, "77:7")
    assert (reader["server"], reader["via"]) == ("replica-1", "feedback")


def test_a_holder_of_catalogs_only_is_never_the_oldest(holders: pd.DataFrame) -> None:
    slot = stay(holders, "left_behind")
    assert slot["catalog_only"]
    assert slot["oldest_s"] == 0
    assert pd.isna(slot["max_age_s"])


def test_a_longrunner_lasts_from_when_it_is_verified_until_it_is_verified_gone(tables: Tables) -> None:
    injections = tables("injections").set_index("name")
    idle = injections.loc["idle_writer-1"]
    assert (idle.category, idle.kind, idle.target, idle.phase, idle.planned_start_s) == (
        "longrunner",
        "idle_writer",
        "primary",
        "longtx",
        5,
    )
    assert (idle.from_s, idle.to_s, idle.active_to_end) == (2.6, 7.2, True)


def test_one_whose_end_was_not_recorded_lasts_to_the_end_of_its_phase(tables: Tables) -> None:
    assert tables("injections").set_index("name").to_s["prepared-1"] == 10


def test_one_that_was_never_verified_counts_from_when_it_was_begun(tables: Tables) -> None:
    reader = tables("injections").set_index("name").loc["replica_reader-1"]
    assert pd.isna(reader.verified_ns)
    assert (reader.from_s, reader.active_to_end) == (3.5, False)
