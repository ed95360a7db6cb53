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
    show(str(path), **changes)
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
