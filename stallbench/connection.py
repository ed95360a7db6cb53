"""Opens a connection to a database under test, and the queue on it, the same way for every process of the bench."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from stallbench.queues import Queue, find_queues
from stallbench.records.endpoint import Endpoint

CONNECT_TIMEOUT_S = 10


def connect(endpoint: Endpoint, application_name: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect to a PostgreSQL server in autocommit, known to it as ``stallbench:<application_name>``.

    JSON columns are handed over as text: a queue's payload is not the bench's to parse. Raises `psycopg.OperationalError` when
    the server cannot be reached within `CONNECT_TIMEOUT_S`.
    """
    connection = psycopg.connect(
        host=endpoint.host,
        port=endpoint.port,
        dbname=endpoint.database,
        user=endpoint.user,
        password=endpoint.password.get_secret_value(),
        application_name=f"stallbench:{application_name}",
        connect_timeout=CONNECT_TIMEOUT_S,
        autocommit=True,
    )
    for name in ("json", "jsonb"):
        connection.adapters.register_loader(name, TextLoader)
    return connection


def open_queue(kind: str, options: Mapping[str, object], endpoint: Endpoint, application_name: str) -> Queue[Any]:
    """Connect and return the queue of that kind on the connection; kind and options have been validated with the scenario."""
    queue_type = find_queues()[kind]
    return queue_type(connect(endpoint, application_name), queue_type.options_type.model_validate(options))
