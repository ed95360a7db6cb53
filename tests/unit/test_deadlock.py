"""A deadlock travels through a sample file whole, and its statements can be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stallbench.engines.deadlocks.deadlock import Deadlock, Lock, Transaction, shape_of
from stallbench.engines.innodb.literals import LITERALS as INNODB_LITERALS
from stallbench.engines.postgres.literals import LITERALS as POSTGRES_LITERALS
from stallbench.records.samples import Sample, SampleLog
from tests.unit.innodb_listings import LISTINGS, deadlock_of


@pytest.mark.parametrize("listing", LISTINGS)
def test_json_is_one_line_and_survives_a_round_trip(listing: str) -> None:
    deadlock = deadlock_of(listing)
    assert "\n" not in deadlock.to_json()
    assert Deadlock.from_json(deadlock.to_json()) == deadlock


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_sample_s_value_passes_through_the_sample_file(listing: str, tmp_path: Path) -> None:
    deadlock = deadlock_of(listing)
    with SampleLog(tmp_path / "deadlocks.csv") as log:
        log.write(1, [Sample("primary", "server", "deadlock", deadlock.to_sample_value())])
    (line,) = (tmp_path / "deadlocks.csv").read_text().splitlines()
    assert Deadlock.from_sample_value(line.split(",")[4]) == deadlock


@pytest.mark.parametrize("torn", ["", "x", "eJ", "münze", deadlock_of("mariadb_two_rows").to_sample_value()[:-20]])
def test_a_torn_value_is_a_value_error(torn: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Deadlock.from_sample_value(torn)


@pytest.mark.parametrize(
    ("sql", "shape"),
    [
        ("delete from `jobs` where `id` = 209", "delete from jobs where id = ?"),
        ("select *\n  from jobs1 where queue = 'it''s' limit 1", "select * from jobs1 where queue = ? limit ?"),
        ("insert into t values (1, 'a', -2.5)", "insert into t values (?, ...)"),
    ],
)
def test_a_shape_leaves_out_the_constants(sql: str, shape: str) -> None:
    assert shape_of(sql) == shape


SECRETS = ("209", "4711", "alice@example.com")


def of_another_customer(server: str) -> Deadlock:
    """A deadlock with a value in everything that can have one."""
    key = Lock(
        table="shop.customers",
        index="PRIMARY",
        mode="X",
        kind="next-key",
        transaction_id="7",
        keys=("209", "'alice@example.com'"),
    )
    sql = "UPDATE customers SET mail = 'alice@example.com' /* 4711 */ WHERE id = 209"
    one = Transaction(number=1, transaction_id="7", sql=sql, waits_for=key, holds=(key, key))
    return Deadlock(
        when="2026-11-21 02:03:14",
        server=server,
        transactions=(
            one,
            replace(one, number=2, sql=f'{sql} OR name = "4711"' if server != "postgres" else f"{sql} OR name = $$4711$$"),
        ),
        other_locks=(key,),
        text=f"{sql} {key.keys}",
    )


@pytest.mark.parametrize("server", ["postgres", "mariadb", "mysql", ""])
def test_without_values_nothing_of_a_statement_a_key_or_the_listing_is_left(server: str) -> None:
    hidden = of_another_customer(server).without_values(POSTGRES_LITERALS if server == "postgres" else INNODB_LITERALS)
    assert not [secret for secret in SECRETS if secret in hidden.to_json()]
    assert {one.sql.split(" OR ")[0] for one in hidden.transactions} == {"UPDATE customers SET mail = ?   WHERE id = ?"}
    assert hidden.transactions[0].waits_for is not None
    assert hidden.transactions[0].waits_for.keys == ("?", "?")
    assert [wait.lock.target for wait in hidden.waits()] == ["customers.PRIMARY", "customers.PRIMARY"]


@pytest.mark.parametrize("listing", LISTINGS)
def test_without_values_the_cycle_stays(listing: str) -> None:
    deadlock = deadlock_of(listing)
    hidden = deadlock.without_values(INNODB_LITERALS)
    assert hidden.text == ""
    assert hidden.victim == deadlock.victim or hidden.victim is not None
    assert [wait.lock.target for wait in hidden.waits()] == [wait.lock.target for wait in deadlock.waits()]
    assert not [key for one in hidden.transactions for lock in one.holds for key in lock.keys if key != "?"]


def test_a_deadlock_is_within_a_database_if_each_lock_is() -> None:
    deadlock = of_another_customer("mariadb")
    assert deadlock.is_within("shop")
    assert not deadlock.is_within("bench")
    (first, second) = deadlock.transactions
    elsewhere = replace(second, waits_for=replace(deadlock.other_locks[0], table="other.jobs"))
    assert not replace(deadlock, transactions=(first, elsewhere)).is_within("shop")
    assert not replace(deadlock, transactions=(first, replace(second, waits_for=None, holds=()))).is_within("shop"), (
        "it says nothing of it"
    )
    assert not replace(deadlock, other_locks=(*elsewhere.holds, replace(deadlock.other_locks[0], table="other.jobs"))).is_within(
        "shop"
    )
