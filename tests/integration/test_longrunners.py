"""What every longrunner must do on real servers: hold, report the truth, release, never stop silently, leave nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from longrunners import find_longrunners
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback
from tests.waiting import PATIENCE_S, wait_for

__all__ = ["database_name", "held", "prompt_feedback"]

pytestmark = pytest.mark.integration

KINDS = list(find_longrunners())
IN_ONE_TRANSACTION = ["idle_writer", "snapshot_reader", "replica_reader"]
QUICK_S = 1.5
TRIES = 5
"""Of what has to be quick: a machine that stands still now and then is late in one of them, a slow longrunner in all."""


def document_of(held: HeldDatabase, kind: str) -> dict[str, object]:
    """Return a document of the kind at its defaults, on the first role that it runs on."""
    on = {"primary": "primary", "replica": "replica-1"}[find_longrunners()[kind].roles[0]]
    return held.document(kind, on)


def lose(held: HeldDatabase, document: dict[str, object], take: Callable[[dict[str, Any]], object], why: str) -> float:
    """Take from a new longrunner what it holds, see that it ends for that reason, and return how long it took to say so."""
    process, holder = held.start(document)
    take(holder)
    taken_s = time.monotonic()
    said = wait_for(process.messages, "the longrunner's last words")
    took_s = time.monotonic() - taken_s
    wait_for(lambda: process.poll() is not None, "the longrunner's end")
    assert [*said, *process.messages()] == [{"lost": why}]
    assert process.exit_code == 3
    return took_s


def wait_until_nothing_is_left(held: HeldDatabase) -> None:
    """Wait for the server: it notices a moment later that a session's client has gone."""
    wait_for(lambda: not held.leftovers(), "the end of all that the longrunner had made")


@pytest.mark.parametrize("kind", KINDS)
def test_vacuum_cannot_remove_rows_deleted_later_until_it_is_asked_to_stop(held: HeldDatabase, kind: str) -> None:
    process, holder = held.start(document_of(held, kind))
    held.wait_until_held(holder)
    held.delete_jobs()
    assert held.kept_dead_rows() == 10

    process.stop(PATIENCE_S)
    assert process.exit_code == 0, process.tail_log()
    assert process.messages()[-1] == {"released": True}
    held.wait_until_vacuum_removes()
    wait_until_nothing_is_left(held)


@pytest.mark.parametrize("kind", IN_ONE_TRANSACTION)
def test_it_reports_within_a_second_that_its_session_was_terminated(held: HeldDatabase, kind: str) -> None:
    document = document_of(held, kind)

    def terminate(holder: dict[str, Any]) -> None:
        held.servers[str(document["on"])].execute("SELECT pg_terminate_backend(%s)", (holder["pid"],))

    why = "57P01: terminating connection due to administrator command"
    assert any(lose(held, document, terminate, why) < QUICK_S for _ in range(TRIES))


def start_with_idle_timeout(held: HeldDatabase) -> Process:
    """Start a longrunner whose session may be idle for some seconds: longer where a machine that stood still used them up before it was ready."""
    for timeout in ("3s", "15s", "60s"):
        held.primary.execute(f"ALTER DATABASE {held.name} SET idle_in_transaction_session_timeout = '{timeout}'")
        with suppress(NotCarriedOutError):
            return held.start(held.document("idle_writer"))[0]
    pytest.fail("the longrunner was never ready")


def test_checking_the_session_does_not_reset_its_idle_time(held: HeldDatabase) -> None:
    process = start_with_idle_timeout(held)
    held.primary.execute(f"ALTER DATABASE {held.name} RESET ALL")
    wait_for(lambda: process.poll() is not None, "the longrunner's end", 2 * PATIENCE_S)
    assert process.messages() == [{"lost": "25P03: terminating connection due to idle-in-transaction timeout"}]


def test_a_reloaded_configuration_does_not_disturb_it(held: HeldDatabase) -> None:
    process, holder = held.start(held.document("idle_writer"))
    state = "SELECT state, state_change FROM pg_stat_activity WHERE pid = %s"
    before = held.primary.execute(state, (holder["pid"],)).fetchone()
    held.primary.execute("ALTER SYSTEM SET timezone = 'Asia/Tokyo'")  # reported to every session, unasked
    held.primary.execute("SELECT pg_reload_conf()")
    time.sleep(0.6)
    held.primary.execute("ALTER SYSTEM RESET timezone")
    held.primary.execute("SELECT pg_reload_conf()")
    assert process.poll() is None and process.messages() == []
    assert held.primary.execute(state, (holder["pid"],)).fetchone() == before


def roll_back_prepared(held: HeldDatabase) -> None:
    held.primary.execute("ROLLBACK PREPARED 'stallbench_prepared_1'")


def drop_slot(held: HeldDatabase) -> None:
    held.primary.execute("SELECT pg_drop_replication_slot('stallbench_slot_1')")


@pytest.mark.parametrize(
    ("kind", "end", "why"),
    [
        ("prepared", roll_back_prepared, "prepared transaction stallbench_prepared_1 was committed or rolled back"),
        ("slot", drop_slot, "slot stallbench_slot_1 was dropped"),
    ],
)
def test_it_reports_within_a_second_that_its_object_was_removed(
    held: HeldDatabase, kind: str, end: Callable[[HeldDatabase], None], why: str
) -> None:
    document = document_of(held, kind)
    assert any(lose(held, document, lambda _: end(held), why) < QUICK_S for _ in range(TRIES))
    held.release(document)
    wait_until_nothing_is_left(held)


LEFT_BY_A_KILLED_ONE = {
    "idle_writer": ["table stallbench_idle_writer_1"],
    "prepared": ["prepared transaction stallbench_prepared_1", "table stallbench_prepared_1"],
    "slot": ["slot stallbench_slot_1"],
    "snapshot_reader": [],
}


@pytest.mark.parametrize("kind", LEFT_BY_A_KILLED_ONE)
def test_after_kill_9_the_same_document_removes_what_was_left(held: HeldDatabase, kind: str) -> None:
    document = document_of(held, kind)
    process, holder = held.start(document)
    held.wait_until_held(holder)
    held.delete_jobs()
    process.kill()

    removed = held.release(document)
    assert [what for what in removed if not what.startswith("session ")] == LEFT_BY_A_KILLED_ONE[kind]
    wait_until_nothing_is_left(held)
    held.wait_until_vacuum_removes()
    assert held.release(document) == [], "there is nothing left to remove the second time"


def test_a_prepared_transaction_is_still_checked_after_the_checking_session_was_terminated(held: HeldDatabase) -> None:
    process, holder = held.start(held.document("prepared"))
    ended: set[int] = set()

    def watching() -> set[int]:
        """A session that was asked to end may remain for a moment."""
        sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'stallbench:longrunner:prepared-1'"
        return {pid for (pid,) in held.primary.execute(sessions).fetchall()} - ended

    for which in ("a watching session", "another watching session"):
        (pid,) = wait_for(watching, which)
        held.primary.execute("SELECT pg_terminate_backend(%s)", (pid,))
        ended.add(pid)
    assert process.poll() is None and held.find(holder) is not None
    wait_for(watching, "a third watching session")
    process.stop(PATIENCE_S)
    assert process.exit_code == 0, process.tail_log()


@pytest.mark.parametrize("kind", ["prepared", "slot"])
def test_an_object_of_another_longrunner_of_the_same_name_is_not_touched(held: HeldDatabase, kind: str) -> None:
    document = document_of(held, kind)
    first, holder = held.start(document)
    second = held.run(document)
    second.wait_end(PATIENCE_S)
    assert second.exit_code == 3
    assert 'the same document with "release": true removes it' in second.tail_log()
    assert first.poll() is None and held.find(holder) is not None
