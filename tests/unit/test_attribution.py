"""The attribution names what held the horizon, and never states more than the data do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.verdicts.attribution import Attribution, attribute
from tests.unit.made_up_run import EMPTY, make_phases, make_record, make_run, make_windows, sample_horizon

pytestmark = pytest.mark.slow


def holder(**known: Any) -> dict[str, Any]:
    return {
        "server": "primary",
        "holder": "4711:1",
        "kind": "backend",
        "pid": 4711,
        "application": "psql",
        "state": "idle in transaction",
        "via": "",
        "catalog_only": False,
        "from_s": 20.0,
        "to_s": 60.0,
        "max_age_s": 40.0,
        "max_age_xids": 12345,
        "oldest_s": 40.0,
        "longrunner": None,
        **known,
    }


def holders(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=EMPTY["holders"])


def rising(slope_us: float) -> pd.DataFrame:
    def dead(t_s: int) -> float:
        return 500.0 * max(0, min(t_s, 60) - 20) if t_s < 61 else 0.0

    return make_windows(dead, lambda t_s: 1.0 + dead(t_s) * slope_us / 1e3)


def test_a_holder_is_named_with_server_pid_state_and_age(tmp_path: Path) -> None:
    sentence = attribute(make_run(tmp_path, holders=holders(holder()))).sentence
    assert "From 20 s to 60 s psql (backend 4711 on primary, idle in transaction, application psql) held the horizon" in sentence
    assert "for up to 40 s and 12,345 transactions" in sentence


@pytest.mark.parametrize(
    ("known", "named"),
    [
        ({"longrunner": "idle_writer-1"}, "idle_writer-1 (backend 4711"),
        (
            {"server": "replica-1", "via": "feedback"},
            "on replica-1, idle in transaction, application psql, holding the primary's horizon through feedback",
        ),
        ({"via": "slot:replica_1"}, "through slot replica_1"),
        (
            {"kind": "prepared", "pid": None, "application": "", "holder": "gid"},
            "prepared transaction gid on primary, which belongs to no session",
        ),
        (
            {"kind": "slot", "pid": None, "application": "", "holder": "old", "state": "inactive"},
            "replication slot old on primary, inactive",
        ),
        ({"kind": "replica", "holder": "replica-1"}, "feedback of replica-1; no backend was found there"),
    ],
)
def test_every_kind_of_holder_is_described_as_what_it_is(tmp_path: Path, known: dict[str, Any], named: str) -> None:
    assert named in attribute(make_run(tmp_path, holders=holders(holder(**known)))).sentence


def test_a_holder_that_is_older_than_the_run_has_no_negative_time(tmp_path: Path) -> None:
    older = holder(from_s=-1613.4, to_s=60.0, max_age_s=1673.4)
    sentence = attribute(make_run(tmp_path, holders=holders(older))).sentence
    assert sentence.startswith("From 1,613 s before the first phase to 60 s psql (")
    assert "held the horizon, for up to 1,673 s and 12,345 transactions." in sentence


def test_of_several_holders_the_one_that_was_the_oldest_for_longest_is_first(tmp_path: Path) -> None:
    behind = holder(holder="1:1", application="report", oldest_s=0.0)
    attribution = attribute(make_run(tmp_path, holders=holders(behind, holder())))
    assert [stay.name for stay in attribution.holders] == ["psql", "report"]
    assert "Other holders: report on primary (20 to 60 s)." in attribution.sentence


@pytest.mark.parametrize("known", [{"catalog_only": True}, {"max_age_s": 0.2}])
def test_a_holder_of_catalogs_only_or_for_a_moment_is_not_named(tmp_path: Path, known: dict[str, Any]) -> None:
    attribution = attribute(make_run(tmp_path, holders=holders(holder(**known))))
    assert attribution.holders == ()
    assert "Nothing held the horizon for longer than a second." in attribution.sentence


def test_claim_time_that_rises_with_the_dead_tuples_has_a_slope(tmp_path: Path) -> None:
    attribution = attribute(make_run(tmp_path, windows=rising(0.25)))
    assert attribution.trend is not None
    assert attribution.trend.slope_us == pytest.approx(0.25, rel=0.01)
    assert attribution.trend.slope_low_us <= attribution.trend.slope_us <= attribution.trend.slope_high_us
    assert attribution.trend.spearman > 0.95
    assert "the median claim time rises with the dead tuples: by 0.25 µs per dead tuple (95 %" in attribution.sentence


def test_a_rise_between_phases_is_not_attributed_to_dead_tuples(tmp_path: Path) -> None:
    windows = make_windows(lambda t_s: float(t_s % 7), lambda t_s: 1.0 + (t_s * 7919 % 13) / 10)
    phases = make_phases({("baseline", "claim_ms.p50"): 1.0, ("longtx", "claim_ms.p50"): 3.0})
    sentence = attribute(make_run(tmp_path, windows=windows, phases=phases)).sentence
    assert "The median claim time rose from 1.00 ms in baseline to 3.00 ms in longtx." in sentence
    assert "the median claim time does not rise with the dead tuples" in sentence
    assert "because" not in sentence


def test_claim_time_that_falls_does_not_rise_with_the_dead_tuples(tmp_path: Path) -> None:
    windows = make_windows(float, lambda t_s: 1.0 + (t_s * 7919 % 13) / 10 - t_s / 50)
    sentence = attribute(make_run(tmp_path, windows=windows)).sentence
    assert "does not rise with the dead tuples (95 % confidence interval of the slope: -" in sentence
    assert "µs per dead tuple; rank correlation -" in sentence


def test_claim_time_that_is_the_same_with_the_shown_decimals_did_not_change(tmp_path: Path) -> None:
    phases = make_phases({("baseline", "claim_ms.p50"): 0.7912, ("longtx", "claim_ms.p50"): 0.7908})
    sentence = attribute(make_run(tmp_path, phases=phases)).sentence
    assert "The median claim time did not change: 0.79 ms in baseline and in longtx." in sentence


def test_phases_and_seconds_may_show_different_things(tmp_path: Path) -> None:
    phases = make_phases({("baseline", "claim_ms.p50"): 3.0, ("longtx", "claim_ms.p50"): 2.0})
    sentence = attribute(make_run(tmp_path, windows=rising(0.25), phases=phases)).sentence
    assert "The median claim time fell from 3.00 ms in baseline to 2.00 ms in longtx. Second by second, the median" in sentence


@pytest.mark.parametrize(
    ("engine", "name"), [("postgres", "dead tuples"), ("mariadb", "history list length"), ("mysql", "history list length")]
)
def test_each_engine_has_its_own_measure_of_old_row_versions(tmp_path: Path, engine: str, name: str) -> None:
    record = make_record()
    record["scenario"]["database"]["engine"] = engine
    windows = rising(0.25)
    windows["history_list_length"] = windows["dead_tuples"]
    attribution = attribute(make_run(tmp_path, record, windows=windows))
    assert attribution.trend is not None
    assert attribution.trend.old_versions == name


def test_an_engine_without_old_row_versions_has_neither_holders_nor_dead_tuples(tmp_path: Path) -> None:
    record = make_record()
    record["scenario"]["database"]["engine"] = "redis"
    attribution = attribute(make_run(tmp_path, record, windows=rising(0.25)))
    assert attribution.trend is None
    assert attribution.sentence == ""


def test_without_data_nothing_is_stated_about_claim_time(tmp_path: Path) -> None:
    attribution = attribute(make_run(tmp_path, windows=make_windows(lambda _: None, lambda _: None)))
    assert attribution.trend is None
    assert attribution.sentence == "Nothing held the horizon for longer than a second."


@pytest.mark.parametrize(
    "samples", [None, "", "1,primary,collector:horizon,failures,3\n"], ids=["no file", "empty", "never complete"]
)
def test_a_horizon_that_nobody_looked_at_is_not_said_to_be_free(tmp_path: Path, samples: str | None) -> None:
    attribution = attribute_horizon(tmp_path, samples)
    assert attribution.sentence == attribution.no_holders
    assert attribution.sentence == "The horizon was not sampled, so it is not known what held it."


FREE = "While the horizon was sampled, nothing held it for longer than a second."


@pytest.mark.parametrize(
    ("seconds", "no_holders", "not_sampled"),
    [
        (range(81), "Nothing held the horizon for longer than a second.", ""),
        (range(-2, 90), "Nothing held the horizon for longer than a second.", ""),
        ([second + 0.9 for second in range(80)], "Nothing held the horizon for longer than a second.", ""),
        (range(0, 81, 2), "Nothing held the horizon for longer than 2 s.", ""),
        (range(0, 81, 10), "Nothing held the horizon for longer than 10 s.", ""),
        (range(21), FREE, "not sampled from 20 s to 80 s, in all of recovered"),
        (range(20), FREE, "not sampled from 19 s to 80 s, in all of longtx and recovered"),
        (range(60, 81), FREE, "not sampled from 0 s to 60 s, in all of baseline and longtx"),
        ([*range(20), *range(60, 81)], FREE, "not sampled from 19 s to 60 s, in all of longtx"),
        ([*range(30), *range(40, 50), *range(70, 81)], FREE, "not sampled from 29 s to 40 s and from 49 s to 70 s"),
        ([-30, 100], FREE, "not sampled from 0 s to 80 s, in all of baseline, longtx and recovered"),
    ],
    ids=[
        "the whole run",
        "longer than the run",
        "late in each second",
        "every other sample missed",
        "samples that cost too much to be taken more often",
        "to the first moment of the transaction",
        "baseline only",
        "late",
        "not while the transaction was open",
        "two gaps",
        "only outside the phases",
    ],
)
def test_it_is_said_for_which_part_of_the_run_the_horizon_was_sampled(
    tmp_path: Path, seconds: Iterable[float], no_holders: str, not_sampled: str
) -> None:
    attribution = attribute_horizon(tmp_path, sample_horizon(seconds))
    assert attribution.no_holders == no_holders
    expected = f"The horizon was {not_sampled}, so it is not known what held it then." if not_sampled else ""
    assert attribution.not_sampled == expected
    assert attribution.sentence == f"{no_holders} {expected}".strip()


def test_of_many_gaps_the_first_three_are_named(tmp_path: Path) -> None:
    seconds = [second for second in range(81) if second % 10 < 4]
    attribution = attribute_horizon(tmp_path, sample_horizon(seconds))
    assert attribution.not_sampled == (
        "The horizon was not sampled from 3 s to 10 s, from 13 s to 20 s, from 23 s to 30 s and in 5 further intervals, "
        "so it is not known what held it then."
    )


@pytest.mark.parametrize(
    ("seconds", "not_sampled"),
    [
        (range(60), "from 60 s to 80 s, in all of recovered"),
        ([*range(30), *range(50, 81)], ""),
        ([*range(10), *range(30, 81)], "from 9 s to 20 s"),
    ],
    ids=["after the holder", "while it held the horizon", "before it, and at its start"],
)
def test_a_holder_is_known_between_its_samples_and_hides_no_other_gap(
    tmp_path: Path, seconds: Iterable[float], not_sampled: str
) -> None:
    run = make_run(tmp_path, holders=holders(holder()))
    (tmp_path / "samples" / "horizon.csv").write_text(sample_horizon(seconds))
    attribution = attribute(run)
    assert "held the horizon, for up to 40 s" in attribution.sentence
    assert attribution.no_holders == ""
    assert attribution.not_sampled == (
        f"The horizon was not sampled {not_sampled}, so it is not known what held it then." if not_sampled else ""
    )
    assert attribution.not_sampled in attribution.sentence


def test_a_longer_sampling_interval_is_no_gap(tmp_path: Path) -> None:
    record = make_record()
    record["scenario"]["collectors"]["interval_s"] = 5.0
    attribution = attribute_horizon(tmp_path, sample_horizon(range(0, 81, 5)), record)
    assert (attribution.no_holders, attribution.not_sampled) == ("Nothing held the horizon for longer than 5 s.", "")


def test_a_killed_run_has_gaps_up_to_its_last_record(tmp_path: Path) -> None:
    record = make_record(status="aborted")
    record["phases"][2]["end_ns"] = None
    assert attribute_horizon(tmp_path, sample_horizon(range(70)), record).not_sampled == (
        "The horizon was not sampled from 69 s to 80 s, so it is not known what held it then."
    )


def attribute_horizon(folder: Path, samples: str | None, record: dict[str, Any] | None = None) -> Attribution:
    """Return the attribution of a run without holders and claim times whose samples of the horizon are these; none: no file."""
    run = make_run(folder, record, windows=make_windows(lambda _: None, lambda _: None))
    file = folder / "samples" / "horizon.csv"
    file.unlink() if samples is None else file.write_text(samples)
    return attribute(run)


def test_queries_that_replicas_cancelled_are_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path, phases=make_phases({("run", "conflicts.count"): 22}))
    assert "Recovery on the replicas cancelled 22 conflicting queries." in attribute(run).sentence
