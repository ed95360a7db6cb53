"""A command of an installer ends in time, or with set-up, and so does everything that it has started."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from stallbench.setup import packages
from stallbench.setup.packages import InstallError
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

LEAVE_A_CHILD = "sleep 1000 & echo $! > {}; wait"


@pytest.fixture
def child(tmp_path: Path) -> Path:
    """The file to which a command writes the process id of its child."""
    return tmp_path / "child"


def has_ended(child: Path) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(int(child.read_text())).status() == psutil.STATUS_ZOMBIE)
    return True


def test_a_command_that_does_not_end_is_ended_with_what_it_has_started(child: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "LONGEST_COMMAND_S", 6.0)
    with pytest.raises(InstallError, match=r"had not ended after 0\.1 minutes; is the network available"):
        packages.run(["sh", "-c", LEAVE_A_CHILD.format(child)])
    wait_for(lambda: has_ended(child), "the end of the child")


def test_a_command_that_ignores_the_request_to_end_is_killed(child: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "LONGEST_COMMAND_S", 6.0)
    monkeypatch.setattr(packages, "_CLEAN_UP_S", 0.2)
    with pytest.raises(InstallError, match="had not ended"):
        packages.run(["sh", "-c", f"trap '' TERM; {LEAVE_A_CHILD.format(child)}"])
    assert has_ended(child)


def test_a_package_that_dpkg_could_not_configure_is_named_with_the_reason(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_text(
        "debconf: delaying package configuration\n"
        + "warning: one of many\n" * 20
        + "dpkg: error processing package ca-certificates-java (--configure):\n"
        " installed ca-certificates-java package post-installation script subprocess returned error exit status 1\n"
        + "Processing triggers\n" * 20
        + "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
    )
    with pytest.raises(InstallError) as failed:
        packages.run(["sh", "-c", f"cat {said} >&2; exit 100"])
    assert "error processing package ca-certificates-java (--configure): / installed ca-certificates-java" in str(failed.value)
    assert str(failed.value).endswith("E: Sub-process /usr/bin/dpkg returned an error code (1)")
    assert str(failed.value).count("one of many") < 5


def test_an_interruption_of_set_up_ends_a_command_with_what_it_has_started(child: Path) -> None:
    code = f"from stallbench.setup import packages; packages._CLEAN_UP_S = 0.2; packages.run(['sh', '-c', {LEAVE_A_CHILD.format(child)!r}])"
    # Where this test's own shell ignores the signal, its children would ignore it too.
    takes_it = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    setting_up = subprocess.Popen([sys.executable, "-c", takes_it + code], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: child.exists() and child.read_text().strip(), "the start of the child")
    setting_up.send_signal(signal.SIGINT)
    _, printed = setting_up.communicate(timeout=60)
    assert "KeyboardInterrupt" in printed
    wait_for(lambda: has_ended(child), "the end of the child")


def test_a_command_that_ctrl_c_ended_is_an_interruption_and_no_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        # Where this test's own shell ignores the signal, as it does for a command in the background, its children would ignore it too.
        packages.run(
            [sys.executable, "-c", "import os, signal as s; s.signal(s.SIGINT, s.SIG_DFL); os.kill(os.getpid(), s.SIGINT)"]
        )
