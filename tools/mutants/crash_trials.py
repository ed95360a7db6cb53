"""Tries mutants that have survived the operations with the whole of `stallbench conform`: kills and pauses at every crash point."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from stallbench.processes.reaper import name_temporary
from stallbench.run.view import RunView
from stallbench.scenario.toml import format_value
from stallbench.studies.conformance.conformance import carry_out_conformance
from stallbench.studies.study import SeparateRuns
from stallbench.studies.torture.plan import plan_torture
from tools.mutants import results
from tools.mutants.sources import QUEUES, Mutant


class KeptRunner(SeparateRuns):
    """Keeps the process that makes the tables for the next mutant."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Keep it."""

    def close(self) -> None:
        """End it."""
        super().__exit__(None, None, None)


def choose_survivors(mutants: Iterable[Mutant], records: Sequence[Mapping[str, Any]], equivalent: Iterable[str]) -> list[Mutant]:
    """Return those of sound queues that have survived the operations, are not known to be equivalent, and were not tried at the crash points yet."""
    operations, tried = results.latest(records, "operations"), results.latest(records, "crash points")
    left_out = set(equivalent)
    return [
        mutant
        for mutant in mutants
        if QUEUES[mutant.queue].is_sound
        and operations.get(mutant.id, {}).get("digest") == mutant.digest
        and operations[mutant.id]["result"] in ("survived", "unreached")
        and tried.get(mutant.id, {}).get("digest") != mutant.digest
        and mutant.id not in left_out
    ]


def try_crash_points(survivors: Sequence[Mutant], path: Path, until_s: float, *, seed: int) -> None:
    """Try each until the time is over; adds a record for each to the file at ``path``."""
    options = results.latest(results.read(path), "operations")
    runner = KeptRunner(is_latest=False)
    try:
        for number, mutant in enumerate(survivors, 1):
            if time.monotonic() >= until_s:
                break
            began_s = time.monotonic()
            judged = _judge(mutant, options[mutant.id]["options"], runner, seed)
            record = {
                "kind": "crash points",
                "mutant": mutant.id,
                "digest": mutant.digest,
                **judged,
                "seconds": round(time.monotonic() - began_s, 1),
            }
            results.append(path, record)
            print(f"{number}/{len(survivors)} {record['result']} {record['seconds']} s {mutant.id} {record['by']}", flush=True)
    finally:
        runner.close()


def _judge(mutant: Mutant, options: Mapping[str, Any], runner: SeparateRuns, seed: int) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix=name_temporary("mutants")) as folder:
        return judge_whole(mutant.write(Path(folder) / "queue"), options, Path(folder), runner, seed)


def judge_whole(kind: str, options: Mapping[str, Any], folder: Path, runner: SeparateRuns, seed: int) -> dict[str, str]:
    """Try a queue with the operations and at every crash point; return the result, the promises that decide it, and a reason."""
    with RunView(Console(file=StringIO())) as view:
        overrides = [f"queue.{name}={format_value(value)}" for name, value in options.items()]
        plan = plan_torture(kind, seed=seed, overrides=overrides, points=(), action=None)
        _, record = carry_out_conformance(plan, folder / "runs", view, with_crash_points=True, runner=runner)
    broken = [each for each in record.list_promises() if each.result == "fail"]
    unknown = [each for each in record.list_promises() if each.result == "unknown"]
    worst = [*broken, *unknown]
    return {
        "result": "killed" if broken else "unknown" if unknown else "survived",
        "by": "; ".join(each.name for each in broken or unknown),
        "reason": worst[0].reason[:300].replace(str(folder), "") if worst else "",
    }
