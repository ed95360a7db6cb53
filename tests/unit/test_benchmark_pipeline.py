"""What the benchmark of the pipeline reports of the processes that it has measured."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.pipeline import find_medians, measure
from stallbench import PROJECT

pytestmark = pytest.mark.slow

HELD_MB = 60
# In short pauses: when the machine has stood still, there is still time left that is measured.
HOLD = f"import time; held = b'x' * ({HELD_MB} * 1024 ** 2); [time.sleep(0.01) for _ in range(150)]"
TWO = f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {HOLD!r}]); {HOLD}; child.wait()"


def test_memory_of_processes_that_run_at_the_same_time_is_added() -> None:
    """Two processes with 60 MB each: the kernel knows the larger one, samples show both.

    A process of its own measures them, because the kernel counts for a started process what its parent had when it was forked.
    """
    measuring = (
        f"import json, sys; from benchmarks.pipeline import measure; print(json.dumps(measure([sys.executable, '-c', {TWO!r}])))"
    )
    ended = subprocess.run([sys.executable, "-c", measuring], cwd=PROJECT, capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    assert HELD_MB <= found["peak_process_mb"] < 2 * HELD_MB
    assert found["peak_tree_mb"] >= 2 * HELD_MB
    assert found["seconds"] >= 1.5


def test_processor_time_is_that_of_this_command_and_of_those_that_it_has_started() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    found = measure([sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"])
    assert found["cpu_s"] >= 0.3
    assert measure([sys.executable, "-c", ""])["cpu_s"] < found["cpu_s"]


def test_a_command_that_fails_has_no_figures() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        measure([sys.executable, "-c", "raise SystemExit(3)"])


def test_medians_are_of_each_figure_by_itself() -> None:
    figures = [{"seconds": 3.0, "cpu_s": 1.0}, {"seconds": 1.0, "cpu_s": 2.0}, {"seconds": 2.0, "cpu_s": 9.0}]
    assert find_medians(figures) == {"seconds": 2.0, "cpu_s": 2.0}
