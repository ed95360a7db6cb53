"""An interrupted command says so, and ends with exit code 130."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from stallbench.cli import main


@pytest.fixture(autouse=True)
def keep_signal_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (["torture", "skip_locked"], "stallbench.studies.torture.plan.plan_torture"),
        (["libraries", "setup", "river"], "stallbench.libraries.find_library"),
    ],
    ids=["torture", "a command of a group"],
)
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str], where: str, signum: signal.Signals
) -> None:
    def interrupt(*_: object, **__: object) -> NoReturn:
        signal.raise_signal(signum)
        raise AssertionError("the signal was ignored")

    monkeypatch.setattr(where, interrupt)
    monkeypatch.setattr(sys, "argv", ["stallbench", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")
