"""An observer that cannot be started gets one message, and the run continues."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from stallbench.base.ports import find_free_port
from stallbench.processes.supervisor import Supervisor
from stallbench.run.folder import RunFolder
from stallbench.run.observers import Observers, read_observer_options

LABELS = {"scenario": "longtx", "variant": "control", "queue": "que", "engine": "postgres"}


def start_observers(tmp_path: Path, port: int) -> tuple[list[str], Supervisor]:
    """Start the observers of a run that has nothing else; returns the messages to the user."""
    folder = RunFolder(tmp_path / "runs" / "a-run")
    folder.logs.mkdir(parents=True)
    (tmp_path / "scratch").mkdir()
    said: list[str] = []
    observer_options = read_observer_options(expose=None, watch=True, watch_port=port, annotate=None)
    observers = Observers(observer_options, folder, LABELS, said.append)
    processes = Supervisor("a-token")
    observers.start(processes, tmp_path / "scratch")
    observers.update([], processes.exposed(), {})
    observers.stop([])
    observers.stop([])
    return said, processes


def test_without_prometheus_there_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLBENCH_PROMETHEUS_BIN", "/nowhere")
    (sentence,), processes = start_observers(tmp_path, find_free_port())
    assert sentence.startswith(
        "--watch: the run continues without Prometheus: STALLBENCH_PROMETHEUS_BIN is '/nowhere'; expected a folder with prometheus"
    )
    assert not processes.records()


def test_with_its_port_taken_there_is_one_message(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (sentence,), processes = start_observers(tmp_path, port)
    assert f"port {port} on 127.0.0.1 is in use; choose another: --watch-port {port + 1}" in sentence
    assert not processes.records()


def test_one_that_ends_at_its_start_gets_one_message_and_its_exit_is_not_unexpected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "prometheus"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "prometheus, version 2.53.0" || { echo "no space left"; exit 1; }\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("STALLBENCH_PROMETHEUS_BIN", str(tmp_path))
    (sentence,), processes = start_observers(tmp_path, find_free_port())
    assert "--watch: the run continues without Prometheus: Prometheus did not start" in sentence
    assert "no space left" in sentence
    (record,) = processes.records()
    assert record.intended == "killed"
