"""The observation's own queries are recognised by their words, as digests have neither comments nor values."""

from __future__ import annotations

import pytest

from stallbench.observe.innodb.own_statements import sign

QUERY = "/* stallbench observe */ SELECT digest, sum_timer_wait / 1e9, coalesce(x, NULL) FROM performance_schema.events WHERE name LIKE 'it''s %%' AND n IN %s"
DIGEST = "SELECT `digest` , `sum_timer_wait` / ? , COALESCE ( `x` , ? ) FROM `performance_schema` . `events` WHERE NAME LIKE ? AND `n` IN (...) "


def test_a_query_and_its_digest_have_the_same_signature() -> None:
    assert sign(QUERY) == sign(DIGEST) is not None


def test_a_digest_that_was_cut_off_has_the_signature_of_its_query() -> None:
    words = " , ".join(f"column_{number}" for number in range(200))
    assert sign(f"SELECT {words} FROM t") == sign(f"SELECT {words}"[:1024] + "...")


def test_a_digest_has_another_word_for_distinct() -> None:
    words = "waiter . processlist_id , pending . lock_type , holder . processlist_user FROM performance_schema . metadata_locks"
    assert sign(f"SELECT DISTINCT {words}") == sign(f"SELECT DISTINCTROW {words}")


@pytest.mark.parametrize(
    "other", ["SELECT digest FROM performance_schema.events WHERE name LIKE ?", "SHOW GLOBAL STATUS LIKE ?", ""]
)
def test_another_statement_is_not_taken_for_it(other: str) -> None:
    assert sign(other) != sign(QUERY)
    assert sign("SHOW GLOBAL STATUS LIKE ?") is None, "another monitor may execute it, too"
