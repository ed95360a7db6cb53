"""How far a forecast was off in another run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stallbench import cli
from stallbench.errors import BadInputError
from stallbench.studies.forecast.command import backtest_forecast, find_own_error
from stallbench.studies.forecast.screen import print_own_error
from tests.unit.made_up_decline import HELD_S, make_declining_run, make_seconds, when_it_saturates
from tests.unit.made_up_run import make_record


def make_pair(folder: Path, **changes: Any) -> tuple[Path, Path]:
    """Make a short run, which ends before it saturates, and a longer one of the same cost model."""
    short, longer = folder / "short", folder / "longer"
    make_declining_run(short, make_seconds(held_s=20))
    make_declining_run(longer, make_seconds(held_s=2 * HELD_S), id="20300102T000000Z-longtx", **changes)
    return short, longer


def test_a_longer_run_of_the_same_cost_model_is_forecast(tmp_path: Path) -> None:
    _, backtest = backtest_forecast(*make_pair(tmp_path))
    assert backtest.held_s == 2 * HELD_S
    saturation, claim, completed, depth = backtest.figures
    assert saturation.measured == pytest.approx(when_it_saturates(), abs=1.5)
    for figure in (saturation, claim, completed, depth):
        assert figure.error == pytest.approx(0, abs=0.05), figure.name


def test_a_run_of_another_cost_model_is_not(tmp_path: Path) -> None:
    short, _ = make_pair(tmp_path)
    make_declining_run(tmp_path / "other", make_seconds(dead_tuple_s=0.2e-6, held_s=2 * HELD_S), id="20300103T000000Z-longtx")
    saturation, claim, completed, _ = backtest_forecast(short, tmp_path / "other")[1].figures
    assert saturation.error is not None
    assert claim.error is not None
    assert completed.error is not None
    assert saturation.error == pytest.approx(0.74, abs=0.02), "the model says 34.9 s, the run 20 s"
    assert claim.error < -0.4
    assert completed.error > 0.2


def test_a_run_that_does_not_saturate_has_no_measured_time(tmp_path: Path) -> None:
    short, _ = make_pair(tmp_path)
    make_declining_run(tmp_path / "calm", make_seconds(dead_tuple_s=1e-12, held_s=HELD_S), id="20300103T000000Z-longtx")
    saturation, claim = backtest_forecast(short, tmp_path / "calm")[1].figures
    assert (saturation.measured, saturation.error) == (None, None)
    assert claim.error is not None


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    short, _ = make_pair(tmp_path)
    with pytest.raises(BadInputError, match="is the run that the forecast is fitted to; expected another run"):
        backtest_forecast(short, short)


def test_a_run_of_another_queue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="ran the queue skip_locked, 20300101T000000Z-longtx ran que"):
        backtest_forecast(*make_pair(tmp_path, queue=make_record()["queue"] | {"kind": "skip_locked"}))


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
    assert "in the 120 s of 20300102T000000Z-longtx forecast measured error time to saturation 34.9 s" in out
    assert run_command(monkeypatch, short, "--against", longer, "--json") == 0
    measured_s = json.loads(capsys.readouterr().out)["against"]["figures"][0]["measured"]
    assert measured_s == pytest.approx(when_it_saturates(), abs=1.5)
    assert run_command(monkeypatch, short, "--against", longer, "--rate", "50") == 2
    assert "leave out --rate, --workers and --work" in capsys.readouterr().err


def test_a_forecast_has_its_own_error_from_the_first_half_of_the_run(tmp_path: Path) -> None:
    make_declining_run(tmp_path / "steady", make_seconds(held_s=2 * HELD_S))
    steady = find_own_error(tmp_path / "steady")
    assert steady is not None
    for figure in steady.figures:
        assert figure.error == pytest.approx(0, abs=0.05), figure.name


def test_where_the_second_half_is_unlike_the_first_the_error_shows_it(tmp_path: Path) -> None:
    seconds = make_seconds(held_s=2 * HELD_S)
    later = seconds["t_s"] >= HELD_S
    seconds.loc[later, "claim_ms_p50"] *= 2
    make_declining_run(tmp_path / "changed", seconds)
    changed = find_own_error(tmp_path / "changed")
    assert changed is not None
    claim = next(figure for figure in changed.figures if figure.name.startswith("claim at the end"))
    assert claim.error == pytest.approx(-0.5, abs=0.05)


def test_a_run_that_is_too_short_to_be_halved_has_no_error_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_declining_run(tmp_path / "short", make_seconds(held_s=20))
    assert find_own_error(tmp_path / "short") is None
    print_own_error(None)
    assert "Its error is not known" in capsys.readouterr().out
