"""Changes on external servers are recorded in a file that only the bench's user may read, until they are undone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr

from stallbench.errors import NotCarriedOutError
from stallbench.leftovers import remove_leftovers
from stallbench.processes.reaper import CLEANUP_JOURNAL, OWNER_FILE
from stallbench.records.endpoint import Endpoint
from stallbench.servers.cleanup_journal import CleanupJournal
from stallbench.servers.join import _put_behind_proxy
from stallbench.servers.toxiproxy import ToxiproxyServer

pytestmark = pytest.mark.slow

NOBODY_LISTENS = Endpoint(engine="postgres", host="127.0.0.1", port=1, database="queues", user="me", password=SecretStr("secret"))


def test_without_an_entry_there_is_no_file(tmp_path: Path) -> None:
    assert CleanupJournal(tmp_path).clean_up().sentences == []
    assert not list(tmp_path.iterdir())


def test_the_file_is_for_the_bench_alone_and_can_be_used(tmp_path: Path) -> None:
    CleanupJournal(tmp_path).record_setting("primary", NOBODY_LISTENS, "autovacuum_naptime", "1min")
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["settings"][0]["endpoint"]["password"] == "secret"


def test_what_cannot_be_undone_is_described_and_kept(tmp_path: Path) -> None:
    journal = CleanupJournal(tmp_path)
    journal.record_setting("primary", NOBODY_LISTENS, "autovacuum_naptime", "1min")
    journal.record_database("primary", NOBODY_LISTENS, "key")
    journal.record_toxiproxy("127.0.0.1", 1)
    journal.record_cleared_proxy("primary")
    remaining = journal.clean_up().remaining
    assert len(remaining) == 3
    assert remaining[1].startswith("the queue's tables are still in database queues on primary: ")
    assert remaining[2].startswith("primary still has autovacuum_naptime as the scenario set it; it was '1min': ")
    assert not any("secret" in sentence for sentence in remaining)
    assert (tmp_path / CLEANUP_JOURNAL).exists()


def test_a_longrunner_that_cannot_be_released_is_named_until_it_is_known_to_be_gone(tmp_path: Path) -> None:
    journal = CleanupJournal(tmp_path)
    document = {"name": "slot-1", "kind": "slot", "on": "primary", "options": {}}
    journal.record_longrunner({**document, "endpoint": NOBODY_LISTENS.with_password()})
    (sentence,) = journal.clean_up().remaining
    assert sentence.startswith("the longrunner slot-1 may still hold the horizon of primary: cannot continue: ")
    assert "secret" not in sentence
    journal.forget_longrunner("slot-1")
    assert journal.clean_up().sentences == []


def test_the_records_of_a_run_on_a_user_s_aerospike_are_removed_or_their_sets_named(tmp_path: Path) -> None:
    journal = CleanupJournal(tmp_path)
    journal.record_sets("fcfs", NOBODY_LISTENS)
    assert not list(tmp_path.iterdir()), "PostgreSQL servers are the bench's own, and are gone after the run"
    database = "test/stallbench_0"
    journal.record_sets("fcfs", NOBODY_LISTENS.model_copy(update={"engine": "aerospike", "database": database}))
    assert json.loads((tmp_path / CLEANUP_JOURNAL).read_text())["sets"][1]["password"] == "secret"
    (sentence,) = journal.clean_up().remaining
    assert sentence.startswith("the queue's records are still in the sets test/stallbench_0_* on 127.0.0.1:1: ")


@pytest.mark.parametrize("of", ["spark", "pipeline", "observe", "profile", "torture"])
def test_the_temporary_folder_of_a_process_that_has_ended_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make = f"import os, tempfile; print(tempfile.mkdtemp(prefix=f'stallbench-{of}-{{os.getpid()}}-'))"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", make], capture_output=True, text=True, check=True, env=environment)
    left = Path(ended.stdout.strip())
    assert left.exists()
    assert f"removed {left} of a process that is dead" in remove_leftovers(tmp_path / "runs")
    assert not left.exists()


def test_what_a_dead_run_changed_on_servers_that_no_longer_exist_is_named_until_the_user_says_to_forget_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch, token = tmp_path / "stallbench-dead", uuid4().hex
    scratch.mkdir()
    (scratch / OWNER_FILE).write_text(json.dumps({"token": token, "pid": 2**22, "process_started_s": 0}))
    CleanupJournal(scratch).record_database("primary", NOBODY_LISTENS, "key")
    for _ in range(2):
        still_there, kept = remove_leftovers(tmp_path / "runs")
        assert still_there.startswith("the queue's tables are still in database queues on primary: ")
        assert kept.endswith("run `stallbench clean` again to retry, or with --forget if the servers no longer exist")
        assert scratch.exists()
    named, removed = remove_leftovers(tmp_path / "runs", forget=True)
    assert named == still_there
    assert removed == f"removed {scratch} and 0 processes of a run whose bench is dead"
    assert not scratch.exists()


def test_a_proxy_on_a_toxiproxy_of_the_user_is_recorded_before_it_is_created(tmp_path: Path) -> None:
    """A bench that is killed between the two would otherwise leave it."""
    recorded_before: list[str] = []

    def add_proxy(name: str, port: int, host: str) -> int:
        recorded_before.extend(json.loads((tmp_path / CLEANUP_JOURNAL).read_text())["created_proxies"])
        return 2

    toxiproxy: Any = SimpleNamespace(process=None, host="", find_proxy_port=lambda _: None, add_proxy=add_proxy)
    _put_behind_proxy(toxiproxy, "primary", NOBODY_LISTENS, CleanupJournal(tmp_path))
    assert recorded_before == ["primary"]


def test_each_proxy_is_put_right_even_if_another_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that the user has removed during the run."""
    done: list[str] = []

    def clear(_: ToxiproxyServer, name: str) -> None:
        if name == "gone":
            raise NotCarriedOutError("there is no proxy 'gone'")
        done.append(name)

    monkeypatch.setattr(ToxiproxyServer, "answers", lambda _: True)
    monkeypatch.setattr(ToxiproxyServer, "clear", clear)
    monkeypatch.setattr(ToxiproxyServer, "remove_proxy", lambda _, name: done.append(name))
    journal = CleanupJournal(tmp_path)
    journal.record_toxiproxy("127.0.0.1", 1)
    for name in ("gone", "primary"):
        journal.record_cleared_proxy(name)
    journal.record_created_proxy("replica-1")
    assert journal.clean_up().remaining == ["Toxiproxy's proxies may still be cut or have toxics: there is no proxy 'gone'"]
    assert done == ["primary", "replica-1"]
