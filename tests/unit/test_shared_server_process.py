"""The process of the server that the runs of a test session share, when a test is interrupted while it asks for a database."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stallbench.testing import bench
from stallbench.testing.bench import BenchSession
from stallbench.testing.session_server import Answer, Request

REQUEST = Request(scenario="longtx", variant=None, overrides=[], folder="/")


class TooLateError(Exception):
    """Stands for what pytest-timeout raises."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """The processes that were asked; the first does not answer in time, the second has ended, the third answers."""
    processes: list[subprocess.Popen[str]] = []

    def ask(server: subprocess.Popen[str], request: Request) -> Answer | None:
        processes.append(server)
        if len(processes) == 1:
            raise TooLateError
        return None if len(processes) == 2 else Answer(address="primary=postgresql://me@127.0.0.1:5432/jobs", database="jobs")

    monkeypatch.setattr(bench, "_ask", ask)
    return processes


def test_no_run_reads_the_answer_to_another_one(asked: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    with BenchSession(tmp_path / "reports", tmp_path, shares_server=True) as session:
        with pytest.raises(TooLateError):
            session.find_server(REQUEST)
        assert asked[0].poll() is not None, "it ended with the question that nobody waits for"
        assert session.find_server(REQUEST).own_because == "the shared server ended unexpectedly"
        assert session.find_server(REQUEST).database == "jobs"
        assert len(set(asked)) == 3
    assert all(process.poll() is not None for process in asked)


def test_without_the_option_no_process_is_started(asked: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    with BenchSession(tmp_path / "reports", tmp_path) as session:
        assert session.find_server(REQUEST).own_because == "each run has its own server"
    assert not asked
