"""A signal that arrives at any moment of a pause ends the pause: each case is a process, which would otherwise hang for ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

WHILE_THE_LOCK_IS_HELD = """
with stop.event._cond:
    os.kill(os.getpid(), {signal})
"""
JUST_BEFORE_THE_PAUSE = """
pause = threading.Condition.wait

def wait(self, timeout=None):
    if not stop.asked:
        os.kill(os.getpid(), {signal})
    return pause(self, timeout)

threading.Condition.wait = wait
assert stop.wait()
"""


@pytest.mark.parametrize("signal", ["signal.SIGTERM", "signal.SIGUSR2"], ids=["the end", "a suspension"])
@pytest.mark.parametrize("moment", [WHILE_THE_LOCK_IS_HELD, JUST_BEFORE_THE_PAUSE], ids=["within its lock", "before it"])
def test_a_role_notices_a_signal_at_any_moment_of_a_pause(moment: str, signal: str) -> None:
    code = "import os, signal, threading\nfrom stallbench.processes.role import Stop, Suspension\nstop = Stop()\nsuspension = Suspension(stop)"
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\n{moment.format(signal=signal)}\nprint(stop.asked)"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("True\n", "")


def test_a_role_collects_no_garbage_until_it_is_loaded_and_does_from_then_on() -> None:
    code = (
        "import gc, sys\nimport stallbench.engines.role_errors as role\nsys.argv[1:] = ['workers']\nseen = []\n"
        "run = role.run_role\nrole.run_role = lambda main: seen.append(gc.isenabled()) or run(lambda: seen.append(gc.isenabled()))\n"
        "import stallbench.processes.__main__\nprint(seen)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ended.stdout, ended.stderr) == ("[False, True]\n", "")
