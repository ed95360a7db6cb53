"""`stallbench observe` as a user starts it: output, exit codes, bad input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stallbench.engines.postgres import connect
from stallbench.records.endpoint import Endpoint
from tests.integration.engines import PrivateServers, private_servers

pytestmark = pytest.mark.end_to_end

NOBODY_LISTENS = "postgresql://reader@127.0.0.1:9/app"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateServers]:
    with private_servers(tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture
def server(servers: PrivateServers) -> Iterator[Endpoint]:
    with servers.empty("postgres") as endpoint:
        yield endpoint


def address_of(endpoint: Endpoint) -> str:
    return f"postgresql://{endpoint.user}@{endpoint.host}:{endpoint.port}/{endpoint.database}"


def start(*arguments: str, password: str = "", **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from stallbench.cli import main; main()", "observe", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PGPASSWORD": password, **environment},
    )


def run(*arguments: str, password: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, password=password, **environment)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def test_one_report_is_printed_and_the_password_is_not(server: Endpoint) -> None:
    password = server.password.get_secret_value()
    done = run("--dsn", address_of(server), "--once", password=password)
    assert done.returncode == 0, done.stderr
    assert "Who holds the horizon" in done.stdout
    assert f"read-only as {server.user}" in done.stdout
    assert password not in done.stdout + done.stderr


def test_the_password_file_is_read(server: Endpoint, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"{server.host}:{server.port}:*:{server.user}:{server.password.get_secret_value()}\n")
    passwords.chmod(0o600)
    done = run("--dsn", address_of(server), "--once", PGPASSFILE=str(passwords))
    assert done.returncode == 0, done.stderr


def test_in_a_file_changes_follow_the_first_report_until_it_is_stopped(server: Endpoint) -> None:
    process = start("--dsn", address_of(server), "--every", "1s", password=server.password.get_secret_value())
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "Wraparound" in line:
                break
        with connect(server, "application") as connection:
            connection.execute("SELECT pg_create_physical_replication_slot('left_behind', true)")
            try:
                new = next(line for line in process.stdout if "left_behind" in line)
            finally:
                connection.execute("SELECT pg_drop_replication_slot('left_behind')")
        assert "warning" in new
        assert "SELECT pg_drop_replication_slot('left_behind');" in new
        assert "over" in next(line for line in process.stdout if "left_behind" in line)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--dsn", "postgresql://me:secret@db/app"], 2, "--dsn primary: contains a password, which the process list would show"),
        (["--dsn", "mysql://me:secret@db/app"], 2, "--dsn primary: contains a password, which the process list would show"),
        (
            ["--dsn", "postgresql://me:sec/secret@db/app"],
            2,
            "--dsn primary: contains a password, which the process list would show",
        ),
        (["--dsn", "postgres//db/app"], 2, "--dsn primary: cannot be read"),
        (["--dsn", "postgresql://db/app?sslmod=require"], 2, "--dsn primary: cannot be read"),
        (["--dsn", "postgresql://db/app?options=-cwork_mem%3D1GB"], 2, "parameter options is not supported"),
        (["--dsn", "oracle://me@db/app"], 2, "expected SCHEME://USER@HOST:PORT/DATABASE"),
        (["--dsn", "replica1=postgresql://me@db/app"], 2, "the server to observe is missing"),
        (["--dsn", NOBODY_LISTENS, "--every", "5"], 2, "--every 5: expected a number with"),
        (["--dsn", NOBODY_LISTENS, "--every", "1ms"], 2, "expected at least 1s"),
        (["--dsn", NOBODY_LISTENS, "--log", "/no/such/file"], 2, "--log /no/such/file: there is no such file"),
        (["--dsn", NOBODY_LISTENS, "--once"], 3, "reader@127.0.0.1:9/app cannot be read"),
        (["--dsn", NOBODY_LISTENS], 3, "reader@127.0.0.1:9/app cannot be read"),
    ],
)
def test_bad_input_is_one_message_with_an_exit_code(arguments: list[str], code: int, words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
