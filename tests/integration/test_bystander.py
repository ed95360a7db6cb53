"""The bystander behind a pooler, which gives it another server connection for each query, and after its connection was ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.records.events import Event
from stallbench.run.bystander.client import ROWS, TABLE
from stallbench.servers.pgbouncer import Pgbouncer
from tests.integration.conftest import TestDatabase
from tests.integration.pooled_queue import connect_through, que, start_pooler
from tests.running_bystander import RunningBystander

pytestmark = pytest.mark.integration
__all__ = ["que", "start_pooler"]


def test_it_goes_on_behind_a_pooler_and_on_a_new_connection(
    que: TestDatabase, start_pooler: Callable[..., Pgbouncer], tmp_path: Path
) -> None:
    pooler = start_pooler("transaction")
    with connect(que.direct, "test") as admin:
        admin.execute(f"CREATE TABLE {TABLE} AS SELECT id, 0 AS value FROM generate_series(0, {ROWS - 1}) AS id")
        bystander = RunningBystander(
            tmp_path, pooler.endpoint.model_copy(update={"database": que.direct.database, "prepared_statements": False})
        )
        try:
            answered = bystander.wait_for(Event.QUERY_ANSWERED, 50)
            assert not bystander.records(Event.QUERY_FAILED)
            with connect_through(pooler.endpoint, "pgbouncer") as console:
                console.pgconn.exec_(f"KILL {que.direct.database}".encode())
                bystander.wait_for(Event.QUERY_FAILED)
                console.pgconn.exec_(f"RESUME {que.direct.database}".encode())
            bystander.wait_for(Event.QUERY_ANSWERED, len(answered) + 100)
        finally:
            bystander.stop()
    assert not bystander.list_missing()
