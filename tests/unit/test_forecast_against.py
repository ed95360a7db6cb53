"""When a run fell behind, and what a forecast was worth in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench import cli
from stallbench.errors import BadInputError
from stallbench.forecast.command import check_forecast
from stallbench.forecast.measured import find_falling_behind
from tests.unit.made_up_decline import HELD_S, make_declining_run, make_seconds, when_it_falls_behind
from tests.unit.made_up_run import make_record


def make_held(empty: list[int], depth: list[int]) -> pd.DataFrame:
    return pd.DataFrame({"empty": empty, "depth": depth})


def test_it_fell_behind_after_the_last_second_with_an_idle_worker() -> None:
    empty = [5, 0, 0, 5, 1] + 20 * [0]
    assert find_falling_behind(make_held(empty, [0, 9, 9, 0, 0, *range(20)])) == 5


def test_it_fell_behind_at_once_if_no_worker_was_ever_idle() -> None:
    assert find_falling_behind(make_held(20 * [0], list(range(20)))) == 0


def test_it_kept_up_if_a_worker_was_idle_to_the_end() -> None:
    assert find_falling_behind(make_held(20 * [1], 20 * [0])) is None


def test_a_few_last_seconds_are_no_decline() -> None:
    assert find_falling_behind(make_held(20 * [1] + 5 * [0], 25 * [3])) is None


def test_workers_that_are_gone_are_no_decline() -> None:
    assert find_falling_behind(make_held(10 * [1] + 20 * [0], 30 * [0])) is None


def make_pair(folder: Path, **changes: Any) -> tuple[Path, Path]:
    """Make a short run, which ends before it falls behind, and a longer one of the same law."""
    short, longer = folder / "short", folder / "longer"
    make_declining_run(short, make_seconds(held_s=20))
    make_declining_run(longer, make_seconds(held_s=2 * HELD_S), id="20300102T000000Z-longtx", **changes)
    return short, longer


def test_a_longer_run_of_the_same_law_is_foretold(tmp_path: Path) -> None:
    _, check = check_forecast(*make_pair(tmp_path))
    assert check.held_s == 2 * HELD_S
    behind, claim, done, depth = check.figures
    assert behind.measured == pytest.approx(when_it_falls_behind(), abs=1.5)
    for figure in (behind, claim, done, depth):
        assert figure.error == pytest.approx(0, abs=0.05), figure.name


def test_one_of_another_law_is_not(tmp_path: Path) -> None:
    short, _ = make_pair(tmp_path)
    make_declining_run(tmp_path / "other", make_seconds(dead_tuple_s=0.2e-6, held_s=2 * HELD_S), id="20300103T000000Z-longtx")
    behind, claim, done, _ = check_forecast(short, tmp_path / "other")[1].figures
    assert behind.error is not None
    assert claim.error is not None
    assert done.error is not None
    assert behind.error > 0.8
    assert claim.error < -0.4
    assert done.error > 0.2


def test_a_run_that_kept_up_is_told_as_one(tmp_path: Path) -> None:
    short, _ = make_pair(tmp_path)
    make_declining_run(tmp_path / "calm", make_seconds(dead_tuple_s=1e-12, held_s=HELD_S), id="20300103T000000Z-longtx")
    behind, claim = check_forecast(short, tmp_path / "calm")[1].figures
    assert (behind.measured, behind.error) == (None, None)
    assert claim.error is not None


def test_a_run_is_no_check_of_itself(tmp_path: Path) -> None:
    short, _ = make_pair(tmp_path)
    with pytest.raises(BadInputError, match="is the run of the fit itself; expected another one"):
        check_forecast(short, short)


def test_a_run_of_another_queue_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="ran the queue skip_locked, 20300101T000000Z-longtx ran que"):
        check_forecast(*make_pair(tmp_path, queue=make_record()["queue"] | {"kind": "skip_locked"}))


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["stallbench", "forecast", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code or 0


def test_the_command_prints_forecast_measurement_and_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short, longer = map(str, make_pair(tmp_path))
    assert run_command(monkeypatch, short, "--against", longer) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "in the 120 s of 20300102T000000Z-longtx forecast measured error until it falls behind 23.3 s" in out
    assert run_command(monkeypatch, short, "--against", longer, "--json") == 0
    measured_s = json.loads(capsys.readouterr().out)["against"]["figures"][0]["measured"]
    assert measured_s == pytest.approx(when_it_falls_behind(), abs=1.5)
    assert run_command(monkeypatch, short, "--against", longer, "--rate", "50") == 2
    assert "leave out --rate, --workers and --work" in capsys.readouterr().err
