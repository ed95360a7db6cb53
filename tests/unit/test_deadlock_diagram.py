"""The drawing of a deadlock: well-formed, without overflow, and saying only what the listing says."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from stallbench.engines.deadlocks.deadlock import Deadlock
from stallbench.engines.deadlocks.diagram import NOT_LISTED, draw_deadlock
from tests.unit.innodb_listings import LISTINGS, deadlock_of

SVG = "{http://www.w3.org/2000/svg}"


def words(svg: str, css: str = "") -> list[str]:
    """Return the texts of a drawing, or those of one class."""
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text") if css in text.get("class", "").split() or not css]


@pytest.mark.parametrize("listing", LISTINGS)
def test_every_listing_can_be_drawn(listing: str) -> None:
    svg = draw_deadlock(deadlock_of(listing))
    root = ET.fromstring(svg)
    assert root.find(f"{SVG}title") is not None and root.find(f"{SVG}desc") is not None
    assert "<script" not in svg and "url(" not in svg


def test_arrows_follow_the_cycle() -> None:
    assert words(draw_deadlock(deadlock_of("mariadb_three")), "label") == ["waits for", "held by"] * 3


def test_the_victim_is_marked_once() -> None:
    assert words(draw_deadlock(deadlock_of("mariadb_delete_is_victim"))).count("rolled back") == 1


def test_a_worker_is_called_by_its_name() -> None:
    svg = draw_deadlock(deadlock_of("mariadb_delete_is_victim"), {4: "worker-3"})
    assert words(svg, "name") == ["(1) worker-3", "(2) connection 5"]


def test_a_holder_that_is_not_listed_is_reported_as_not_listed() -> None:
    labels = words(draw_deadlock(deadlock_of("mysql_57_claim_and_delete")), "label")
    assert labels == ["waits for", "held by", "waits for", NOT_LISTED]


def test_a_single_transaction_has_its_statement_beside_its_lock() -> None:
    svg = draw_deadlock(deadlock_of("mysql_57_too_deep"))
    assert words(svg, "label") == ["waits for"]
    assert NOT_LISTED in words(svg)


def test_a_victim_that_the_listing_does_not_name_is_reported_as_unknown() -> None:
    deadlock = deadlock_of("mariadb_two_rows")
    unknown = replace(deadlock, transactions=tuple(replace(t, rolled_back=False) for t in deadlock.transactions))
    assert "The listing does not say which transaction was rolled back." in words(draw_deadlock(unknown))


def with_statement(sql: str) -> Deadlock:
    deadlock = deadlock_of("mariadb_three")
    return replace(deadlock, transactions=tuple(replace(t, sql=sql) for t in deadlock.transactions))


@pytest.mark.parametrize(
    "sql",
    [
        "insert into jobs values " + ", ".join(f"({n}, 'payload')" for n in range(500)) + " on duplicate key update attempts = 1",
        "select " + "a" * 3000,
        "update 口座 set 説明 = '" + "残高が足りない" * 100 + "'",
        "select '<&\"' from `jobs`",
    ],
)
def test_a_long_statement_is_wrapped_and_shortened(sql: str) -> None:
    code = words(draw_deadlock(with_statement(sql)), "code")
    assert max(len(line) for line in code) <= 48
    assert len(code) < 3 * 8


def test_a_shortened_statement_keeps_its_end() -> None:
    text = " ".join(words(draw_deadlock(with_statement("select " + "name, " * 200 + "id from jobs for update")), "code"))
    assert "select name" in text
    assert "for update" in text


def test_nothing_at_all_is_drawn_as_nothing() -> None:
    ET.fromstring(draw_deadlock(Deadlock(when="", server="", transactions=())))
