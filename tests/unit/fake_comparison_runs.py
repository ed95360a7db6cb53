"""Stands for the runs of a comparison in tests: nothing is started."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stallbench.run.folder import RunFolder, create_run_folder
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.studies.comparison import comparison as compare
from stallbench.verdicts import Verdict, judge
from tests.unit.made_up_run import make_phases, make_record, make_run

_JUDGED: dict[tuple[str | None, str], Verdict] = {}
"""By variant and expectations: all else that is judged is the same in every run."""
SLOWNESS = {None: 8.0, "cure": 1.0, "half": 4.0}


class FakeRuns:
    """Stands for `open_run` and `conclude`; ``before_run`` and ``before_tables`` are called with the number of the run, and may raise."""

    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []
        self.before_run: Callable[[int], None] = lambda _: None
        self.before_tables: Callable[[int], None] = lambda _: None

    @contextmanager
    def open_run(self, scenario: Scenario, runs: Path, view: RunView) -> Iterator[Any]:
        self.scenarios.append(scenario)
        fake = self

        class Run:
            folder = create_run_folder(scenario, runs)

            def carry_out(self) -> None:
                fake.before_run(len(fake.scenarios))

        yield Run()

    def conclude(self, folder: RunFolder, make_tables: Callable[[RunFolder], None]) -> Verdict:
        self.before_tables(len(self.scenarios))
        scenario = self.scenarios[-1].model_dump(mode="json")
        slower = SLOWNESS[self.scenarios[-1].variant] + 0.01 * len(self.scenarios)
        phases = make_phases({("baseline", "claim_ms.p95"): 1.0, ("longtx", "claim_ms.p95"): slower})
        run = make_run(folder.path, make_record(id=folder.path.name, scenario=scenario), phases=phases)
        alike = (self.scenarios[-1].variant, repr(scenario["expect"]))
        if alike not in _JUDGED:
            _JUDGED[alike] = judge(run)
        verdict = replace(_JUDGED[alike], run=folder.path.name)
        (folder.path / "verdict.json").write_text(json.dumps(verdict.as_json()))
        return verdict

    @classmethod
    def install(cls, monkeypatch: pytest.MonkeyPatch) -> FakeRuns:
        """Put fake runs in place of the real ones until the test ends."""
        runs = cls()
        monkeypatch.setattr(compare, "open_run", runs.open_run)
        monkeypatch.setattr(compare, "conclude", runs.conclude)
        return runs


def raise_at(number: int, error: BaseException) -> Callable[[int], None]:
    """Return what raises ``error`` in the run of that number."""

    def raise_then(now: int) -> None:
        if now == number:
            raise error

    return raise_then
