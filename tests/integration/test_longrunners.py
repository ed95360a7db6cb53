"""What every longrunner must do on real servers: hold, say so truthfully, let go, never stop silently, leave nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from longrunners import find_longrunners
from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback, wait_for

__all__ = ["database_name", "held", "prompt_feedback"]

pytestmark = pytest.mark.integration

KINDS = list(find_longrunners())
IN_ONE_TRANSACTION = ["idle_writer", "snapshot_reader", "replica_reader"]


def document_of(held: HeldDatabase, kind: str) -> dict[str, object]:
    """Return a document of the kind at its defaults, on the first role that it runs on."""
    on = {"primary": "primary", "replica": "replica-1"}[find_longrunners()[kind].roles[0]]
    return held.document(kind, on)


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_vacuum_from_rows_deleted_later_until_it_is_asked_to_end(held: HeldDatabase, kind: str) -> None:
    process, holder = held.start(document_of(held, kind))
    held.wait_until_held(holder)
    held.delete_jobs()
    assert held.kept_dead_rows() == 10

    process.stop(grace_s=5)
    assert process.exit_code == 0, process.tail_log()
    assert process.messages()[-1] == {"released": True}
    held.wait_until_vacuum_removes()
    assert held.leftovers() == []


@pytest.mark.parametrize("kind", IN_ONE_TRANSACTION)
def test_it_says_so_within_a_second_when_its_session_is_terminated(held: HeldDatabase, kind: str) -> None:
    document = document_of(held, kind)
    process, holder = held.start(document)
    held.servers[str(document["on"])].execute("SELECT pg_terminate_backend(%s)", (holder["pid"],))
    wait_for(lambda: process.poll() is not None, "the longrunner's end", within_s=1.5)
    assert process.messages() == [{"lost": "57P01: terminating connection due to administrator command"}]
    assert process.exit_code == 3


def test_its_watching_does_not_reset_the_idle_time_that_the_server_limits(held: HeldDatabase) -> None:
    held.primary.execute(f"ALTER DATABASE {held.name} SET idle_in_transaction_session_timeout = '1s'")
    process, _ = held.start(held.document("idle_writer"))
    held.primary.execute(f"ALTER DATABASE {held.name} RESET ALL")
    wait_for(lambda: process.poll() is not None, "the longrunner's end", within_s=3)
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
        ("prepared", roll_back_prepared, "somebody finished prepared transaction stallbench_prepared_1"),
        ("slot", drop_slot, "somebody dropped slot stallbench_slot_1"),
    ],
)
def test_it_says_so_when_somebody_removes_what_it_left(
    held: HeldDatabase, kind: str, end: Callable[[HeldDatabase], None], why: str
) -> None:
    document = document_of(held, kind)
    process, _ = held.start(document)
    end(held)
    wait_for(lambda: process.poll() is not None, "the longrunner's end", within_s=1.5)
    assert process.messages() == [{"lost": why}]
    assert process.exit_code == 3
    held.release(document)
    assert held.leftovers() == []


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
    assert held.leftovers() == []
    held.wait_until_vacuum_removes()
    assert held.release(document) == [], "there is nothing left to remove the second time"


def test_a_prepared_transaction_is_watched_on_although_the_watching_session_is_terminated(held: HeldDatabase) -> None:
    process, holder = held.start(held.document("prepared"))
    terminate = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stallbench:longrunner:prepared-1'"
    )
    assert held.primary.execute(terminate).fetchall() == [(True,)]
    wait_for(lambda: held.primary.execute(terminate).fetchall(), "another watching session")
    assert process.poll() is None and held.find(holder) is not None
    wait_for(lambda: "stallbench:longrunner:prepared-1" in held.leftovers(), "a third watching session")
    process.stop(grace_s=5)
    assert process.exit_code == 0, process.tail_log()


@pytest.mark.parametrize("kind", ["prepared", "slot"])
def test_what_another_of_the_same_name_holds_is_not_touched(held: HeldDatabase, kind: str) -> None:
    document = document_of(held, kind)
    first, holder = held.start(document)
    second = held.run(document)
    second.wait_end(5)
    assert second.exit_code == 3
    assert 'the same document with "release": true removes it' in second.tail_log()
    assert first.poll() is None and held.find(holder) is not None
