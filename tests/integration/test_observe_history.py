"""`stallbench observe --record` of a real server, and what `--at` says of it afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import PASSWORD_VARIABLE
from tests.integration.conftest import TestDatabase
from tests.integration.observed import OBSERVE_UNRESTRAINED
from tests.integration.test_observe_json import OpenConnection
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OBSERVE = (sys.executable, *OBSERVE_UNRESTRAINED)
SECRET = "a very secret value"


def list_recorded(folder: Path) -> list[bytes]:
    texts = (zlib.decompressobj(wbits=31).decompress(path.read_bytes()) for path in sorted(folder.glob("*.jsonl.gz*")))
    return b"".join(texts).splitlines()


def test_who_blocked_is_known_when_it_is_over_and_no_value_of_a_statement_was_kept(
    database: TestDatabase, open_connection: OpenConnection, tmp_path: Path
) -> None:
    with connect(database.direct, "test") as admin:
        admin.execute("CREATE TABLE jobs (n text); INSERT INTO jobs VALUES ('first')")
    holder, waiter = open_connection(database.direct, "holder"), open_connection(database.direct, "waiter")
    holder.execute(f"BEGIN; UPDATE jobs SET n = '{SECRET} of the holder'")
    waiter.execute("SET statement_timeout = '60s'")
    waiter.pgconn.send_query(f"UPDATE jobs SET n = '{SECRET} of the waiter'".encode())
    endpoint, history = database.direct, tmp_path / "history"
    address = f"postgresql://{endpoint.user}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    environment = {**os.environ, PASSWORD_VARIABLE: endpoint.password.get_secret_value()}
    recorder = subprocess.Popen(
        [*OBSERVE, "--dsn", address, "--every", "1s", "--record", str(history)], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: len(list_recorded(history)) >= 1, "a reading")
    finally:
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()
    holder.execute("ROLLBACK")
    recorded = list_recorded(history)
    assert SECRET.encode() not in b"".join(recorded)
    past = [*OBSERVE, "--record", str(history), "--at", "0s ago"]
    ended = subprocess.run([*past, "--all"], capture_output=True, text=True, check=True)
    assert f"SELECT pg_terminate_backend({holder.info.backend_pid});" in ended.stdout
    assert "Its statements were for that time: do not execute them now." in ended.stdout
    assert "Blocked sessions" in ended.stdout
    printed = subprocess.run([*past, "--json"], capture_output=True, check=True).stdout
    assert printed.splitlines() == recorded[-1:]
