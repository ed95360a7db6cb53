"""What `stallbench observe` says of the cancellation of a vacuum that autovacuum executes."""

from __future__ import annotations

import pytest

from stallbench.observe.postgres.sessions import SessionDetails, end_session


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("autovacuum: VACUUM public.jobs", "ends this vacuum; autovacuum begins it again; only a superuser may"),
        (
            "autovacuum: VACUUM public.jobs (to prevent wraparound)",
            "ends this vacuum, which protects the server from wraparound: autovacuum begins it again within a minute; only a superuser may",
        ),
    ],
)
def test_a_vacuum_of_autovacuum_comes_back_and_only_a_superuser_may_cancel_it(query: str, words: str) -> None:
    worker = SessionDetails(7, "autovacuum worker", "", "", "", "", "active", "VacuumDelay", 5.0, 5.0, query)
    remedy = end_session(7, worker)
    assert remedy.statement == "SELECT pg_cancel_backend(7);"
    assert remedy.caution.startswith(words)
