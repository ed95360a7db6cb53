"""What `stallbench observe` concludes, shows and accepts, without a server."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from stallbench.base.number_text import format_bytes
from stallbench.engines.postgres.collectors.horizon import Holder
from stallbench.errors import BadInputError
from stallbench.observe.address import read_addresses
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, Reading, Remedy, Section, Severity
from stallbench.observe.expectations import read_expectations
from stallbench.observe.formatting import format_age, format_since
from stallbench.observe.known_queue import find_known_queues
from stallbench.observe.observer import Observation, Observer, ServerGoneError, pause_after
from stallbench.observe.postgres.horizon import judge_holder
from stallbench.observe.screen import list_changes, render
from stallbench.sql_names import quote_name, quote_text, write_quoted


def holder(kind: str = "backend", **values: object) -> Holder:
    given = {
        "source": "this server",
        "key": "7",
        "pid": 7,
        "application": "",
        "state": "idle in transaction",
        "age_s": 1.0,
        "age_xids": 1,
    }
    return Holder(kind=kind, **(given | values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "severity", "statement"),
    [
        (holder(age_s=5.0), Severity.NOTE, "SELECT pg_terminate_backend(7);"),
        (holder(age_s=90.0), Severity.WARNING, "SELECT pg_terminate_backend(7);"),
        (holder(age_s=400.0), Severity.CRITICAL, "SELECT pg_terminate_backend(7);"),
        (holder(age_s=5.0, age_xids=2_000_000), Severity.CRITICAL, "SELECT pg_terminate_backend(7);"),
        (holder("prepared", key="it's", pid=None, age_s=2.0), Severity.NOTE, "ROLLBACK PREPARED 'it''s';"),
        (holder("prepared", key="it's", pid=None, age_s=30.0), Severity.WARNING, "ROLLBACK PREPARED 'it''s';"),
        (
            holder("slot", key="old", pid=None, age_s=None, state="inactive"),
            Severity.WARNING,
            "SELECT pg_catalog.pg_drop_replication_slot('old');",
        ),
    ],
)
def test_the_longer_a_holder_stays_the_worse_it_is(found: Holder, severity: Severity, statement: str) -> None:
    finding = judge_holder(found, {}, {}, rank=0)
    assert (finding.severity, finding.statement) == (severity, statement)


def test_an_active_slot_is_not_dropped_but_looked_behind() -> None:
    finding = judge_holder(holder("slot", key="s", state="active", age_s=None, via="slot:s"), {}, {}, rank=0)
    assert "drop" not in finding.statement
    assert finding.where == "on the replica s"


def test_looks_take_a_hundredth_of_the_time_at_most() -> None:
    assert pause_after(0.001, 0.002, 5) == 5
    assert pause_after(0.2, 0.01, 5) == 20
    assert pause_after(0.01, 0.3, 5) == 30


class FakeSession:
    version_text = "15.8"
    spent_s = 0.0

    def close(self) -> None: ...


class Counting(Diagnostic):
    name = "reading"
    what = "something"
    position = 1

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings

    def read(self, reading: Reading) -> Section:
        return Section(title="Reading", findings=self.findings)


def finding(subject: str, statement: str, severity: Severity, sentence: str, about: str = "it") -> Finding:
    return Finding(severity=severity, subject=subject, about=about, sentence=sentence, statement=statement)


def look_with(*findings: Finding) -> Observation:
    def refuse(subject: Diagnostic, error: Exception) -> NotVisible:
        raise error

    return Observer(
        lambda name: FakeSession(), (), [Counting(*findings)], describe=lambda reading: "server", explain=refuse
    ).read()


def test_what_one_statement_ends_is_one_finding_as_severe_as_its_worst_part() -> None:
    observation = look_with(
        finding("reading", "KILL 1;", Severity.WARNING, "It holds the horizon."),
        finding("reading", "KILL 2;", Severity.WARNING, "Another one."),
        finding("reading", "KILL 1;", Severity.CRITICAL, "It blocks 3 sessions."),
    )
    assert [(one.severity.name, one.sentence) for one in observation.findings] == [
        ("CRITICAL", "It holds the horizon. It blocks 3 sessions."),
        ("WARNING", "Another one."),
    ]


def test_a_server_that_cannot_be_reached_is_an_observation_too() -> None:
    def connect(name: str) -> FakeSession:
        raise ServerGoneError(name, "the server is starting up")

    observation = Observer(
        connect, (), [Counting()], describe=lambda reading: "", explain=lambda s, e: NotVisible(what="", why="")
    ).read()
    assert observation.gone == "the server is starting up"


def observed(*findings: Finding) -> Observation:
    return Observation(at=datetime(2026, 1, 1, 3, 0, tzinfo=UTC), title="app", findings=findings)


def test_beyond_a_terminal_only_changes_are_printed() -> None:
    before = observed(finding("a", "", Severity.WARNING, "grows", "x"), finding("a", "", Severity.NOTE, "is over", "y"))
    now = observed(finding("a", "KILL 1;", Severity.CRITICAL, "grew", "x"), finding("b", "", Severity.NOTE, "is new", "x"))
    assert list_changes(before, now) == [
        "03:00:00 UTC  critical  grew  To end it: KILL 1;",
        "03:00:00 UTC  note      is new",
        "03:00:00 UTC  over      is over",
    ]
    assert list_changes(now, now) == []


def test_the_worst_finding_is_at_the_top_of_the_page_and_its_statement_is_whole() -> None:
    statement = f"SELECT pg_drop_replication_slot('{'long_' * 10}');"
    console = Console(width=100, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(
            render(observed(finding("a", statement, Severity.CRITICAL, "[it] is bad"), finding("b", "", Severity.NOTE, "less")))
        )
    text = capture.get()
    assert "[it] is bad" in text.splitlines()[2]
    assert statement.replace(" ", "") in "".join(text.split()), "broken at spaces only, so it can be copied"
    assert text.index("CRITICAL") < text.index("NOTE")


def test_each_way_to_end_a_finding_is_shown_with_its_consequence() -> None:
    cancel = Remedy(statement="SELECT pg_cancel_backend(8);", caution="ends its ALTER TABLE")
    shown = Finding(
        severity=Severity.CRITICAL,
        subject="a",
        about="7",
        sentence="It blocks.",
        statement="SELECT pg_terminate_backend(7);",
        caution="rolls its transaction back",
        other_ways=(cancel,),
    )
    console = Console(width=100, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(render(observed(shown, replace(shown, about="8", only_shows=True))))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    end, instead = ["SELECT pg_terminate_backend(7);", "which rolls its transaction back"], ["SELECT pg_cancel_backend(8);"]
    ways = [*end, "Or:", *instead, "which ends its ALTER TABLE"]
    assert lines[3:9] == ["To end it:", *ways]
    assert lines[11:17] == ["To find it:", *ways]


def test_a_report_without_findings_is_an_all_clear_only_if_everything_can_be_seen() -> None:
    console = Console(width=200, record=True, force_terminal=False)
    not_visible = NotVisible(what="other users' sessions", why="the user is not a member of pg_monitor")
    with console.capture() as capture:
        console.print(render(observed()))
        console.print(render(Observation(at=datetime(2026, 1, 1, 3, 0, tzinfo=UTC), title="app", not_visible=(not_visible,))))
    headlines = [line.rstrip() for line in capture.get().splitlines() if line.startswith("Nothing")]
    assert headlines == [
        "Nothing that would slow a queue down was found.",
        "Nothing that would slow a queue down was found in what can be seen from here. What cannot be seen is below.",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59, "59 s"), (150, "2 min"), (7300, "2 h 1 min"), (200_000, "2 d 7 h"), (None, "?")]
)
def test_ages_have_two_units_at_most(seconds: float | None, text: str) -> None:
    assert format_age(seconds) == text


def test_texts_and_sizes() -> None:
    assert format_bytes(1536) == "1.5 kB"
    assert format_bytes(None) == "?"
    assert format_since(3600).endswith("UTC")
    assert quote_text("it's") == "'it''s'"
    assert quote_text("a\\b") == " E'a\\\\b'"
    assert quote_text("a\u202e\U000e0041'\\") == r" E'a\u202e\U000e0041''\\'"
    assert quote_name('a"b') == '"a""b"'
    assert quote_name("a\u202e\U000e0041\\") == r'U&"a\202e\+0e0041\\"'
    assert write_quoted('app."Jobs\\"."a\u00a0""b"') == r'app."Jobs\".U&"a\00a0""b"'


def test_addresses_are_libpq_s_and_the_password_is_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("PGUSER", "reader")
    monkeypatch.delenv("PGSSLMODE", raising=False)
    servers = read_addresses(["postgresql://db.test/app?sslmode=require", "replica1=postgresql://me@db2.test:5433/app"])
    assert (servers.primary.host, servers.primary.port, servers.primary.user) == ("db.test", 5432, "reader")
    assert (servers.replicas["replica1"].host, servers.replicas["replica1"].port) == ("db2.test", 5433)
    assert servers.primary.password.get_secret_value() == "secret"
    assert "secret" not in repr(servers)
    by_words = read_addresses(["host=db.test dbname=app user=me"]).primary
    assert (by_words.host, by_words.database, by_words.user) == ("db.test", "app", "me")
    assert (servers.primary.parameters, servers.replicas["replica1"].parameters) == ({"sslmode": "require"}, {})
    assert "PGSSLMODE" not in os.environ, "what one address says is for its server alone"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "--dsn primary: is empty; expected SCHEME://"),
        (" ", "--dsn primary: is empty; expected SCHEME://"),
        ("postgresql://me@db.test:65536/app", "--dsn primary: port is 65536; expected 1 to 65535"),
        ("postgresql://me@db.test:0/app", "--dsn primary: port is 0; expected 1 to 65535"),
        ("mysql://me@db.test:65536/app", "--dsn primary: cannot be read as an address: Port out of range 0-65535"),
        ("mysql://me:s3c/ret@db.test/app", "--dsn primary: contains a password"),
        (
            "postgresql://me@db.test/app?sslmode=required",
            "--dsn primary: sslmode is 'required'; expected one of disable, allow, prefer, require, verify-ca, verify-full; did you mean",
        ),
    ],
)
def test_an_address_that_is_none_is_refused_before_a_server_is_asked(address: str, said: str) -> None:
    with pytest.raises(BadInputError) as raised:
        read_addresses([address])
    assert str(raised.value).startswith(said)
    assert "s3c" not in str(raised.value)


def test_contradicting_parameters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "disable")
    with pytest.raises(BadInputError, match="sslmode is require, and PGSSLMODE is disable"):
        read_addresses(["postgresql://me@db.test/app?sslmode=require"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[expect]]\nmetric = "depth.lst"\nat_most = 1', "expected depth with one of"),
        ('[[expect]]\nmetric = "lost.count"\nat_most = 0', "which only a run of the bench has"),
        ('[[expect]]\nmetric = "dead_tuples.per_job"\nat_most = 1', "an observation counts no completed jobs"),
        ('[[expect]]\nmetric = "depth.last"\nphase = "night"\nat_most = 1', "an observation has one phase"),
        ('[[expect]]\nmetric = "depth.last"\nrelative_to = "day"\nat_most = 1', "an observation has no other phase"),
        ('[[expect]]\nmetric = "depth.last"', "has no bound"),
        ('[queue]\nkind = "que"', "queue"),
        ("", r"^--expect .*queue.toml: empty; docs/observe.md describes its \[\[expect\]\] tables$"),
        ("# " + "x" * 1024 * 1024, "a file of expectations has at most 1,048,576"),
        ("expect", "not valid TOML"),
    ],
)
def test_a_file_of_expectations_is_validated_before_a_server_is_asked(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "queue.toml"
    path.write_text(text)
    with pytest.raises(BadInputError, match=words) as caught:
        read_expectations(path)
    assert str(path) in str(caught.value)


def test_what_is_no_file_of_expectations_is_named_as_what_it_is(tmp_path: Path) -> None:
    expected = r"a file of \[\[expect\]\] tables, like queue.toml in docs/observe.md$"
    for path, problem in (
        (tmp_path, f"a folder; expected {expected}"),
        (Path("/dev/null"), f"not a file; expected {expected}"),
        (tmp_path / "missing.toml", f"there is no such file; give {expected}"),
    ):
        with pytest.raises(BadInputError, match=f"^--expect {re.escape(str(path))}: {problem}"):
            read_expectations(path)


def test_every_known_queue_is_complete() -> None:
    for name, known in find_known_queues().items():
        assert known.running is None or known.rescue or not known.running.rescue_words, name
        if known.library:
            assert known.claim_pattern, name
