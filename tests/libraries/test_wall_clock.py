"""The wall clock of a worker in JavaScript: Node has it in milliseconds, or as an origin that is wrong if the process stood still at its start."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.libraries.probes import CONTRACT, PROBES

pytestmark = pytest.mark.integration

MODULE = CONTRACT / "javascript" / "stallbench_clock.mjs"
ORIGIN_IS_WRONG = "Object.defineProperty(performance, 'timeOrigin', { value: performance.timeOrigin + 5000 });"
IS_SET_LATER = "clock.read(); const now = Date.now; Date.now = () => now() + 3600_000;"


@pytest.mark.parametrize(("before", "after", "later_s"), [(ORIGIN_IS_WRONG, "", 0), ("", IS_SET_LATER, 3600)])
def test_it_is_that_of_the_bench_and_follows_when_it_is_set(tmp_path: Path, before: str, after: str, later_s: int) -> None:
    command = PROBES["javascript"]()
    script = tmp_path / "clock.mjs"
    script.write_text(
        f"{before} const {{ Clock }} = await import('{MODULE}'); const clock = new Clock({{}}); {after}\n"
        "console.log(String(clock.read())); process.exit(0);\n"
    )
    begin_ns = time.time_ns()
    ended = subprocess.run(
        [command.argv[0], str(script)],
        env={**os.environ, **command.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert begin_ns <= int(ended.stdout) - later_s * 10**9 <= time.time_ns()
