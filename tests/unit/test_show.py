"""``stallbench show``: a scenario with everything that its file leaves to the defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stallbench.commands.scenarios import show

SCENARIO = """
summary = "A fault and a maintenance task with few options."
database.engine = "postgres"
queue = { kind = "que", batch = 3 }
producers.rate = 100
maintenance = [{ kind = "watchdog" }]

[[phases]]
name = "only"
duration = "10s"
faults = [{ kind = "kill", on = "workers", every = "2s" }]
"""


def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> dict[str, Any]:
    path = tmp_path / "short.toml"
    path.write_text(SCENARIO)
    show(str(path), as_json=True, **changes)
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_options_of_the_queue_of_faults_and_of_maintenance_are_shown_with_their_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = shown(tmp_path, capsys)
    assert (scenario["queue"]["batch"], scenario["queue"]["priority"]) == (3, 100)
    keys = {"kind": "watchdog", "on": "primary", "phase": None, "after_s": 0.0}
    assert scenario["maintenance"][0] == {**keys, "every_s": 1.0, "older_than_s": 10.0}
    (fault,) = scenario["phases"][0]["faults"]
    assert (fault["every_s"], fault["replace_after_s"]) == (2.0, 1.0)
    assert "every" not in fault, "each option is shown once"


def test_a_changed_option_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(tmp_path, capsys, set_=["queue.batch=7"])["queue"]["batch"] == 7


def test_a_person_is_told_what_happens_what_is_asked_and_how_to_run_it(capsys: pytest.CaptureFixture[str]) -> None:
    show("longtx")
    lines = capsys.readouterr().out.splitlines()
    text = "\n".join(lines)
    assert lines[0].startswith("longtx: ")
    headings = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert headings == ["queue", "servers", "load", "phases", "judged", "variants", "run"]
    for part in (
        "idle_writer on primary",
        "at least 5 times baseline",
        "skip_locked: ",
        "stallbench run longtx",
        "stallbench compare longtx",
    ):
        assert part in text, part


def test_a_variant_is_shown_with_the_command_that_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "short.toml"
    path.write_text(f'{SCENARIO}\n[variants.slow]\nsummary = "Slower."\nproducers.rate = 10\n')
    show(str(path), variant="slow", set_=["queue.batch=7"])
    text = capsys.readouterr().out
    assert "short, variant slow: Slower." in text
    assert "10 jobs/s" in text
    assert "kill on workers" in text
    assert "meanwhile  watchdog on primary" in text
    assert f"stallbench run {path} --variant slow --set queue.batch=7" in text
