"""`stallbench observe --json`: a document for each reading, which its JSON Schema describes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.document import ReadingDocument
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from tests.integration.conftest import Connection, TestDatabase

pytestmark = pytest.mark.integration

OpenConnection = Callable[..., Connection]


def observe(endpoint: Endpoint, *arguments: str) -> list[dict[str, Any]]:
    address = f"postgresql://{endpoint.user}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    argv = [sys.executable, "-P", "-m", "stallbench.cli", "observe", "--dsn", address, "--json", *arguments]
    environment = {**os.environ, PASSWORD_VARIABLE: endpoint.password.get_secret_value()}
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment)
    documents = [json.loads(line) for line in ended.stdout.splitlines()]
    for document in documents:
        jsonschema.validate(document, ReadingDocument.model_json_schema(mode="serialization"))
    return documents


def test_a_document_names_who_blocks_and_the_statement_that_ends_it(
    database: TestDatabase, open_connection: OpenConnection
) -> None:
    with connect(database.direct, "test") as admin:
        admin.execute("CREATE TABLE jobs (n int); INSERT INTO jobs VALUES (1)")
    holder, waiter = open_connection(database.direct, "\x1b[31mholder"), open_connection(database.direct, "waiter")
    holder.execute("BEGIN; UPDATE jobs SET n = 2")
    waiter.execute("SET statement_timeout = '60s'")
    waiter.pgconn.send_query(b"UPDATE jobs SET n = 3")
    (document,) = observe(database.direct, "--once")
    (blocking,) = [one for one in document["findings"] if one["subject"] == "blocking"]
    assert blocking["about"] == str(holder.info.backend_pid)
    assert f"SELECT pg_terminate_backend({holder.info.backend_pid});" in [way["statement"] for way in blocking["ways"]]
    assert "\x1b" not in json.dumps(document, ensure_ascii=False)
    assert document["figures"] == [], "only with --all"


def test_every_reading_is_a_line(database: TestDatabase) -> None:
    documents = observe(database.direct, "--for", "5s", "--every", "1s", "--all")
    assert len(documents) >= 1
    assert {one["title"] for one in documents[0]["figures"]} >= {"Queues"}
    assert [one["gone"] for one in documents] == [""] * len(documents)
