"""An impossible forecast gets one line that says what was found and what is expected, and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench import PROJECT, cli
from tests.unit import made_up_run
from tests.unit.made_up_decline import HELD_S, make_declining_run, make_hold, make_seconds

pytestmark = pytest.mark.slow

SAMPLE = PROJECT / "tests" / "small_run"


@pytest.fixture
def forecast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs ``stallbench forecast`` in this process, to exit code, output and errors in one line each."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["stallbench", "forecast", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code or 0
        assert isinstance(code, int)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, " ".join(captured.out.split()), " ".join(captured.err.replace("│", " ").split())

    return run


BAD_LOADS = {
    "no rate": (("--rate", "0"), "--rate is 0; expected jobs per second, above 0 and up to 1,000,000"),
    "a negative rate": (("--rate=-5",), "--rate is -5; expected"),
    "a rate that is no number": (("--rate", "nan"), "--rate is nan; expected"),
    "an endless rate": (("--rate", "inf"), "--rate is inf; expected"),
    "a rate that is too high": (("--rate", "1e9"), "--rate is 1e+09; expected"),
    "a rate in words": (("--rate", "fast"), "unable to parse string as a number"),
    "no workers": (("--workers", "0"), "--workers is 0; expected a number from 1 to 256"),
    "too many workers": (("--workers", "1000"), "--workers is 1000; expected a number from 1 to 256"),
    "half a worker": (("--workers", "0.5"), "unable to parse string as an integer"),
    "work without a unit": (("--work", "10"), '--work is "10"; expected a number with us, ms, s, m or h, like "90s"'),
    "work for days": (("--work", "25h"), '--work is "25h"; expected an hour at most'),
}


@pytest.mark.parametrize(("options", "expected"), BAD_LOADS.values(), ids=BAD_LOADS)
def test_an_impossible_load_is_refused(forecast: Any, tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    make_declining_run(tmp_path)
    code, out, err = forecast(str(tmp_path), *options)
    assert (code, out) == (2, "")
    assert expected in err


LIBRARY = {"title": "River", "version": "0.51", "language": "go", "completion": "hook", "rescue": "rescue", "settings": {}}


def with_seconds(**columns: Any) -> pd.DataFrame:
    return make_seconds().assign(**columns)


BAD_RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "no transaction": ({"injections": []}, "no long transaction held the horizon in this run"),
    "a transaction that was lost": (
        {"injections": [make_hold(to_s=HELD_S, active_to_end=False)]},
        "no long transaction held the horizon in this run",
    ),
    "a short one": (
        {"injections": [make_hold(to_s=10)]},
        "dead tuples were sampled in only 10 seconds of it; a fit needs 15 or more",
    ),
    "no dead tuples sampled": (
        {"seconds": with_seconds(dead_tuples=float("nan"))},
        "dead tuples were sampled in only 0 seconds of it; a fit needs 15 or more, of a queue in PostgreSQL, with collectors.enabled = true",
    ),
    "dead tuples that do not stay": (
        {"seconds": with_seconds(dead_tuples=500.0)},
        "dead tuples did not remain (0.00 per completed job)",
    ),
    "a library": (
        {"queue": made_up_run.make_record()["queue"] | {"library": LIBRARY}, "seconds": with_seconds(claim_ms_p50=float("nan"))},
        "the worker of River 0.51 does not show how long a claim takes, which the forecast is fitted to; expected a run of one of the bench's "
        "queues, or your own queue in Python; stallbench limit measures the highest rate of a library",
    ),
    "nothing claimed": (
        {"seconds": with_seconds(claimed=0, claim_ms_p50=float("nan"))},
        "only 0 seconds in which jobs were claimed while idle_writer-1 held the horizon",
    ),
}


@pytest.mark.parametrize(("changes", "expected"), BAD_RUNS.values(), ids=BAD_RUNS)
def test_a_run_from_which_nothing_can_be_fitted(forecast: Any, tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    make_declining_run(tmp_path, **changes)
    code, out, err = forecast(str(tmp_path), "--rate", "50")
    assert (code, out) == (2, "")
    assert expected in err


def test_no_such_run(forecast: Any, tmp_path: Path) -> None:
    code, out, err = forecast("20300101T000000Z-longtx", "--runs", str(tmp_path))
    assert (code, out) == (2, "")
    assert "20300101T000000Z-longtx: no such run; expected a folder, or a name below" in err


def test_a_run_without_tables(forecast: Any, tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    (tmp_path / "tables" / "windows" / "_SUCCESS").unlink()
    code, out, err = forecast(str(tmp_path))
    assert (code, out) == (2, "")
    assert "not there or not whole; make it by: stallbench report" in err


def test_a_run_whose_jobs_were_all_there_before_needs_a_rate(forecast: Any, tmp_path: Path) -> None:
    run = make_declining_run(tmp_path)
    scenario = run.record.scenario.model_dump(mode="json")
    scenario["producers"] |= {"rate": 0.0}
    make_declining_run(tmp_path / "drained", scenario=scenario)
    code, out, err = forecast(str(tmp_path / "drained"))
    assert (code, out) == (2, "")
    assert "give --rate and --workers above 0" in err
    assert forecast(str(tmp_path / "drained"), "--rate", "50")[0] == 0


def test_a_sample_of_a_run_that_is_too_short_is_reported_as_such(forecast: Any) -> None:
    code, out, err = forecast(str(SAMPLE), "--rate", "50")
    assert (code, out) == (2, "")
    assert "idle_writer-1 held the horizon, but dead tuples were sampled in only 7 seconds of it" in err


def test_the_output_begins_with_the_answer(forecast: Any, tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    code, out, err = forecast(str(tmp_path), "--rate", "50", "--workers", "8", "--work", "10ms")
    assert (code, err) == (0, "")
    assert out.startswith(
        "que at 50 jobs/s, 8 workers, 10ms of work per job; fitted to 60 s of 20300101T000000Z-longtx The queue saturates"
    )
    assert "Assumptions:" in out


def test_the_output_for_a_queue_that_keeps_up(forecast: Any, tmp_path: Path) -> None:
    make_declining_run(tmp_path, make_seconds(dead_tuple_s=0.0, noise=0.1))
    code, out, err = forecast(str(tmp_path))
    assert (code, err) == (0, "")
    assert "No sign that dead tuples saturate this queue: with up to" in out
