"""A user of the database makes things that `stallbench observe` reads: so many that the queue is not seen, or so large that nothing is."""

from __future__ import annotations

import pytest

from stallbench.engines.postgres.collectors.statements import read_statement_counts, read_statement_texts
from stallbench.engines.postgres.driver import connect
from stallbench.observe.diagnostic import Severity
from tests.integration.conftest import TestDatabase
from tests.integration.observed import cannot_see, finding_about, look_at, observer_of, section_of, text_of

pytestmark = pytest.mark.integration

_QUEUE = """
CREATE TABLE {schema}.que_jobs (priority smallint, run_at timestamptz, job_id bigint, job_class text, args json, error_count int, last_error text, queue text);
INSERT INTO {schema}.que_jobs SELECT 100, now() - interval '1 hour', n, 'Work', '[]', 0, NULL, '' FROM generate_series(1, 500) AS n;
"""


def test_a_thousand_tables_with_a_similar_name_do_not_hide_the_queue(database: TestDatabase) -> None:
    with connect(database.direct, "test") as admin:
        admin.execute("CREATE SCHEMA aaa; CREATE SCHEMA zzz;" + _QUEUE.format(schema="zzz"))
        admin.execute("DO $$ BEGIN FOR n IN 1..1000 LOOP EXECUTE format('CREATE TABLE aaa.que_jobs%s ()', n); END LOOP; END $$")
    finding = finding_about(look_at(database.direct), "500 jobs are ready")
    assert finding.severity is Severity.CRITICAL
    assert "zzz.que_jobs" in finding.sentence


def test_a_thousand_queues_of_somebody_else_come_after_those_of_the_owner(database: TestDatabase) -> None:
    columns = "priority smallint, run_at timestamptz, job_id bigint, job_class text, args json, error_count int, last_error text, queue text"
    with connect(database.direct, "test") as admin:
        admin.execute(
            "CREATE ROLE decoy; CREATE SCHEMA aaa AUTHORIZATION decoy; CREATE SCHEMA zzz;" + _QUEUE.format(schema="zzz")
        )
        try:
            admin.execute(
                "SET ROLE decoy; DO $$ BEGIN FOR n IN 1..1000 LOOP "
                f"EXECUTE format('CREATE TABLE aaa.que_jobs%s ({columns})', n); END LOOP; END $$; RESET ROLE"
            )
            observation = look_at(database.direct)
        finally:
            # One after the other: the locks of a thousand tables do not fit into one transaction.
            admin.execute(
                "DO $$ BEGIN FOR n IN 1..1000 LOOP EXECUTE format('DROP TABLE IF EXISTS aaa.que_jobs%s', n); COMMIT; END LOOP; END $$"
            )
            admin.execute("DROP SCHEMA aaa; DROP ROLE decoy")
    assert "zzz.que_jobs" in finding_about(observation, "500 jobs are ready").sentence
    assert "1,000 tables have the columns of a queue, and no more are looked at" in cannot_see(observation)


def test_a_name_without_a_known_encoding_is_said_to_be_unseen(database: TestDatabase) -> None:
    with connect(database.direct, "test") as admin:
        admin.execute("CREATE DATABASE without_encoding ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        try:
            endpoint = database.direct.model_copy(update={"database": "without_encoding"})
            with connect(endpoint, "test") as owner:
                owner.execute("SET client_encoding = 'SQL_ASCII'")
                name = b'"\xff\xfe\x80tab"'
                owner.execute(b"CREATE SCHEMA " + name)
                owner.execute(_QUEUE.format(schema="SCHEMA").encode().replace(b"SCHEMA", name))
            observation = look_at(endpoint)
        finally:
            # The server could give nobody the text of any statement as long as it has one with these bytes.
            admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            admin.execute("SELECT pg_stat_statements_reset(0, oid, 0) FROM pg_database WHERE datname = 'without_encoding'")
            admin.execute("DROP DATABASE without_encoding WITH (FORCE)")
    assert "cannot be written in the database's encoding" in cannot_see(observation)


def test_a_statement_of_millions_of_characters_is_read_in_part(database: TestDatabase) -> None:
    with connect(database.direct, "application") as application:
        application.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        text = "SELECT 1 AS number /* " + "a\u0301\u202e" * 1_000_000 + " */"
        application.execute(text.encode())
        with observer_of(database.direct) as observer:
            for _ in range(2):
                application.execute(text.encode())
                observation = observer.read(reads_everything=True)
    shown = text_of(section_of(observation, "Statements"))
    assert len(shown) < 100_000


def test_what_is_read_of_a_statement_is_bounded_by_the_server(database: TestDatabase) -> None:
    with connect(database.direct, "application") as application:
        application.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        application.execute(b"SELECT 1 AS number /* " + b"x" * 1_000_000 + b" */")
        counts = read_statement_counts(application)
        assert counts is not None
        texts = read_statement_texts(application, [one.statement for one in counts])
    assert max(len(text or "") for _, text in texts) == 20_000
