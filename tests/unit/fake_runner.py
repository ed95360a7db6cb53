"""Stands for the runs of a study in tests: nothing is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from stallbench.run.folder import RunFolder, create_run_folder
from stallbench.scenario.model import Scenario
from stallbench.studies.study import Say
from stallbench.verdicts import Verdict, judge
from tests.unit.made_up_run import make_phases, make_record, make_run

_JUDGED: dict[tuple[str | None, str], Verdict] = {}
"""By variant and expectations: all else that is judged is the same in every run."""
SLOWNESS = {None: 8.0, "cure": 1.0, "half": 4.0}


def make_compared_run(folder: Path, scenario: Scenario, number: int) -> Verdict:
    """Write what a run of a comparison measured, and return its verdict."""
    content = scenario.model_dump(mode="json")
    slower = SLOWNESS[scenario.variant] + 0.01 * number
    phases = make_phases({("baseline", "claim_ms.p95"): 1.0, ("longtx", "claim_ms.p95"): slower})
    run = make_run(folder, make_record(id=folder.name, scenario=content), phases=phases)
    alike = (scenario.variant, repr(content["expect"]))
    if alike not in _JUDGED:
        _JUDGED[alike] = judge(run)
    return replace(_JUDGED[alike], run=folder.name)


class FakeRunner:
    """A `stallbench.studies.study.Runner`; ``before_run`` and ``before_tables`` are called with the number of the run, and may raise."""

    def __init__(self, make: Callable[[Path, Scenario, int], Verdict] = make_compared_run, *, is_latest: bool = True) -> None:
        """``make``: writes the records and tables of a run, and returns its verdict."""
        self.scenarios: list[Scenario] = []
        self.before_run: Callable[[int], None] = lambda _: None
        self.before_tables: Callable[[int], None] = lambda _: None
        self.measure: Callable[[Scenario], float] | None = None
        self._make = make
        self._is_latest = is_latest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def measure_capacity(self, scenario: Scenario, say: Say, folder: Path) -> float:
        assert self.measure is not None, "the load is known"
        return self.measure(scenario)

    def carry_out(self, scenario: Scenario, runs: Path, begun: Callable[[RunFolder], None]) -> RunFolder:
        self.scenarios.append(scenario)
        folder = create_run_folder(scenario, runs, is_latest=self._is_latest)
        begun(folder)
        self.before_run(len(self.scenarios))
        return folder

    def make_tables(self, folder: RunFolder) -> None:
        self.before_tables(len(self.scenarios))
        self._make(folder.path, self.scenarios[-1], len(self.scenarios))

    def conclude(self, folder: RunFolder) -> Verdict:
        self.before_tables(len(self.scenarios))
        verdict = self._make(folder.path, self.scenarios[-1], len(self.scenarios))
        (folder.path / "verdict.json").write_text(json.dumps(verdict.as_json()))
        return verdict


def raise_at(number: int, error: BaseException) -> Callable[[int], None]:
    """Return what raises ``error`` in the run of that number."""

    def raise_then(now: int) -> None:
        if now == number:
            raise error

    return raise_then
