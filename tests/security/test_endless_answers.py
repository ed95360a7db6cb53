"""A receiver of a webhook whose answer never ends: the documents after it are posted all the same."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count

import pytest

from stallbench.observe import webhook as module
from stallbench.observe.diagnostic import Finding, Severity
from stallbench.observe.observer import Observation
from stallbench.observe.webhook import Webhook, read_webhook

LIMIT_S = 0.3
PATIENCE_S = 20.0


def observe_something(number: int) -> Observation:
    found = Finding(severity=Severity.WARNING, subject="horizon", about=str(number), sentence="It holds the horizon.")
    return Observation(at=datetime(2026, 1, 1, tzinfo=UTC), title="app on db.test", findings=(found,), gone="")


@pytest.mark.parametrize(
    "answer",
    [
        lambda number: b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
        lambda number: b"HTTP/1.1 200 OK\r\n" if number == 0 else b"a",
        lambda number: b"x",
    ],
    ids=["continue", "a header", "a status"],
)
def test_an_answer_that_never_ends_is_broken_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: Callable[[int], bytes]
) -> None:
    monkeypatch.setattr(module, "_WHOLE_LIMIT_S", LIMIT_S)
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        for _ in range(2):
            client, _ = listener.accept()
            with client, suppress(OSError):
                for number in count():
                    client.sendall(answer(number))
                    if ended.wait(0.01):
                        break
        ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        address = read_webhook(f"http://127.0.0.1:{listener.getsockname()[1]}/", allows_unencrypted=False)
        with Webhook(address) as webhook:
            webhook.report(observe_something(1))
            webhook.report(observe_something(2))
            assert ended.wait(PATIENCE_S), "both were posted"
    assert f"could not be posted: its answer did not end in {LIMIT_S:g} s" in capsys.readouterr().err
