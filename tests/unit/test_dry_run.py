"""`stallbench run --dry-run` says what a run needs and what will be judged, and starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.cli import main
from stallbench.commands.dry_run import describe_dry_run
from stallbench.commands.options import JudgedAs, list_overrides
from stallbench.scenario.file import read_scenario


def describe(folder: Path, scenario: str, *overrides: str, external: tuple[str, ...] = ()) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    heading = ""
    for name, line in describe_dry_run(read_scenario(scenario, overrides=overrides), folder, external):
        heading = name or heading
        found.setdefault(heading, []).append(line)
    return found


def test_it_says_servers_load_phases_time_disk_and_expectations(tmp_path: Path) -> None:
    found = describe(tmp_path, "longtx")
    assert found["servers"] == ["PostgreSQL: a primary; started for this run, and stopped after it"]
    assert found["load"] == ["50% of what the workers can do, which is measured first; 4 workers"]
    assert found["phases"][2] == "longtx: at most 1m, idle_writer on primary, for 30,000 jobs, until the queue has fallen behind"
    assert found["time"][0].startswith(
        "at most 169 s of phases (or longer, until enough jobs were due), and 4 s or more before them"
    )
    assert "at 100 jobs/s" in found["disk"][0]
    assert len(found["judged"]) == 8
    assert found["judged"][0].startswith("expected: claim_statement_buffers.per_call in longtx is at least 5 times baseline (")


def test_it_says_what_is_required_of_another_queue(tmp_path: Path) -> None:
    found = describe(
        tmp_path, "failover", "queue.kind=status_column", external=("primary=postgresql://x@y/z", "replica-1=postgresql://x@w/z")
    )
    assert found["servers"] == ["external, none is started: primary, replica-1"]
    assert found["judged"][:2] == [
        "required, survives: no job is lost",
        "required, survives: no job is repeated without a reason that the promise allows",
    ]
    assert len(found["disk"]) == 1


def test_judge_is_a_change_of_the_scenario() -> None:
    assert list_overrides(["seed=3"], JudgedAs.SURVIVES) == ["seed=3", "judge=survives"]
    assert list_overrides(None, None) == []


def test_the_command_starts_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    changes = ["--judge", "survives", "--set", "producers.rate=5", "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr("sys.argv", ["stallbench", "run", "baseline", "--dry-run", *changes])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, 3), "3: the servers of this machine cannot run it"
    assert "judged     required, survives: no job is lost" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()
