"""`stallbench observe --webhook`: which URLs it takes, what it posts, and what becomes of a failure."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import BadInputError
from stallbench.observe import webhook as module
from stallbench.observe.diagnostic import Finding, Severity
from stallbench.observe.observer import Observation
from stallbench.observe.options import read_options
from stallbench.observe.webhook import Webhook, WebhookAddress, read_webhook
from tests.webhook_receiver import webhook_receiver

SECRET = "T0/B0/the-secret"


def finding(severity: Severity, sentence: str, about: str = "7") -> Finding:
    return Finding(severity=severity, subject="horizon", about=about, sentence=sentence, statement="KILL 7;", caution="ends it")


def observed(*findings: Finding, gone: str = "") -> Observation:
    return Observation(at=datetime(2026, 1, 1, 3, 0, tzinfo=UTC), title="app on db.test", findings=findings, gone=gone)


def address(url: str) -> WebhookAddress:
    return read_webhook(url, allows_unencrypted=False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"https://hooks.example.com/{SECRET}", "https://hooks.example.com"),
        (f"https://me:the-secret@hooks.example.com:8443/{SECRET}?key=the-secret", "https://hooks.example.com:8443"),
        (f"http://127.0.0.1:9/{SECRET}", "http://127.0.0.1:9"),
        (f"http://[::1]/{SECRET}", "http://[::1]"),
        ("http://localhost", "http://localhost"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPS_WEBHOOK", url)
    for given in ("OPS_WEBHOOK", *([] if "@" in url else [url])):
        read = address(given)
        assert read.shown == shown
        assert "the-secret" not in repr(read)
        assert "me:" not in read.url
        assert ("Authorization" in read.headers) == ("@" in url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            f"http://hooks.example.com/{SECRET}",
            "--webhook http://hooks.example.com: is not encrypted, .* --allow-unencrypted-webhook",
        ),
        (f"http://127.0.0.1.example.com/{SECRET}", "is not encrypted"),
        (f"ftp://hooks.example.com/{SECRET}", "cannot be read as a URL; expected https://HOST/PATH"),
        (f"https://hooks.example.com:port/{SECRET}", "cannot be read as a URL"),
        (f"https://hooks.example.com/{SECRET}\r\nX: y", "cannot be read as a URL"),
        (f"https:///{SECRET}", "cannot be read as a URL"),
        (
            "https://me:the-secret@hooks.example.com/x",
            "--webhook https://hooks.example.com: contains a password, which the process list",
        ),
        ("the-secret", "is no URL, and no environment variable has its name"),
        ("", "is no URL"),
    ],
)
def test_what_cannot_be_posted_to_is_bad_input_that_repeats_no_secret(url: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words) as caught:
        address(url)
    assert "the-secret" not in str(caught.value)


def test_http_to_another_machine_is_permitted_on_request() -> None:
    assert read_webhook("http://hooks.example.com/x", allows_unencrypted=True).url == "http://hooks.example.com/x"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"webhook": "https://a.example", "once": True}, "--once cannot be combined with --webhook"),
        ({"allows_unencrypted_webhook": True}, "needs --webhook"),
        (
            {"mode": "mcp", "webhook": "https://a.example", "as_json": True},
            "observe mcp cannot be combined with --json, --webhook",
        ),
        ({"mode": "mpc"}, "observe mpc: expected mcp, or nothing; an address follows --dsn"),
        ({"mode": "postgresql://me:the-secret@db.test/app"}, "observe an address: expected mcp"),
    ],
)
def test_options_that_contradict_each_other_are_bad_input(values: dict[str, Any], words: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"every": "5s", "tables": [], "log": None, "once": False, "for_": None, "report": False}
    given |= {"expect": None, "expose": None, "profile": None, "runs": tmp_path, **values}
    with pytest.raises(BadInputError, match=words) as caught:
        read_options(["postgresql://me@127.0.0.1:9/app"], **given)
    assert "the-secret" not in str(caught.value)


def test_a_finding_is_posted_when_it_begins_becomes_worse_or_ends_and_not_at_each_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grown = finding(Severity.CRITICAL, "It holds the horizon for 300 s.")
    with webhook_receiver() as receiver:
        monkeypatch.setenv("OPS_WEBHOOK", receiver.url.replace("http://", "http://me:pass@"))
        with Webhook(address("OPS_WEBHOOK")) as webhook:
            webhook.report(observed(finding(Severity.WARNING, "It holds the horizon for 60 s.")))
            webhook.report(observed(finding(Severity.WARNING, "It holds the horizon for 65 s.")))
            webhook.report(observed(gone="the server is starting up"))
            webhook.report(observed(grown))
            webhook.report(observed())
        posted = [receiver.take() for _ in range(3)]
        assert receiver.documents.empty()
    assert [one["event"] for one in posted] == ["began", "worse", "ended"]
    assert posted[1] == {
        "format": 1,
        "event": "worse",
        "at": "2026-01-01T03:00:00Z",
        "server": "app on db.test",
        "finding": {
            "severity": "critical",
            "subject": "horizon",
            "also_found_by": [],
            "about": "7",
            "sentence": "It holds the horizon for 300 s.",
            "because": "",
            "ways": [{"statement": "KILL 7;", "where": "", "consequence": "ends it", "only_shows": False}],
        },
    }
    assert {(one["Content-Type"], one["Authorization"]) for one in receiver.headers} == {
        ("application/json", "Basic bWU6cGFzcw==")
    }


@pytest.mark.parametrize(("status", "why"), [(500, "HTTP 500"), (302, "HTTP 302 (a redirection, which is not followed)")])
def test_a_failure_is_said_once_until_a_document_is_posted(status: int, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with webhook_receiver() as receiver:
        receiver.status = status
        with Webhook(address(receiver.url)) as webhook:
            webhook.report(observed(finding(Severity.NOTE, "One.", "1"), finding(Severity.NOTE, "Two.", "2")))
        assert [receiver.take()["finding"]["about"] for _ in range(2)] == ["1", "2"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"--webhook {receiver.url.partition('/services')[0]}: a finding could not be posted: ")
    assert why in line
    assert "the-secret" not in line


def test_who_does_not_answer_ends_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patch:
        patch.setattr(module, "TIME_LIMIT_S", 0.1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with Webhook(address(url)) as webhook:
            webhook.says_at_end = True
            webhook.report(observed(finding(Severity.NOTE, "One.", "1")))
            assert not capsys.readouterr().err
        assert "no answer" in capsys.readouterr().err
    with Webhook(address(url)) as webhook:
        webhook.report(observed(finding(Severity.NOTE, "One.", "1")))
    assert "Connection refused" in capsys.readouterr().err
