"""What another user of the machine reaches on the ports on which the bench's processes listen."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from stallbench import PROJECT
from tests.security.conftest import OtherUser

_ASK = """
import json, socket, struct, sys
answers = {}
for port in json.load(sys.stdin):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(10)
        body = b"what Java would deserialise"
        connection.sendall(struct.pack(">qbqi", 21 + len(body), 3, 1, len(body)) + body)
        answer = b""
        try:
            while b"Exception" not in answer and (received := connection.recv(65536)):
                answer += received
        except OSError:
            pass
    answers[port] = answer.decode(errors="replace")
print(json.dumps(answers))
"""
"""Sends Spark's message of a remote call, with a body that is no call, and prints what each port answers."""


_OPEN = """
import sys
from stallbench.pipeline.session import open_session
with open_session("local[1]", settings={} if sys.argv[1] == "authenticate" else {"spark.authenticate": "false"}):
    print("open", flush=True)
    sys.stdin.read()
"""
"""Opens a session of Spark until its input ends. It needs a process of its own: there is one session in each, and other tests may have one."""


def listening_ports(process: psutil.Process) -> dict[int, str]:
    """Return the addresses of a process and its children, by port."""
    return {
        connection.laddr.port: connection.laddr.ip
        for each in (process, *process.children(recursive=True))
        for connection in each.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def ask_spark(other_user: OtherUser, *, authenticate: bool) -> dict[str, str]:
    command = [sys.executable, "-c", _OPEN, "authenticate" if authenticate else "trust"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == "open\n"
        spark = psutil.Process(session.pid)
        ports = listening_ports(spark)
        assert ports
        assert set(ports.values()) <= {"127.0.0.1", "::ffff:127.0.0.1"}, ports
        for each in spark.children(recursive=True):
            with suppress(psutil.ZombieProcess):  # of the program that put Java's command together
                assert "authenticate.secret" not in " ".join(each.cmdline())
        ended = other_user.run(["/usr/bin/python3", "-c", _ASK], standard_input=json.dumps(list(ports)))
        session.communicate()
        assert ended.returncode == 0, ended.stderr
        return dict(json.loads(ended.stdout))


def test_spark_deserialises_nothing_of_another_user(other_user: OtherUser) -> None:
    answers = ask_spark(other_user, authenticate=True)
    assert any("Expected SaslMessage" in answer for answer in answers.values())
    assert not any("NettyRpcHandler" in answer for answer in answers.values())


@pytest.mark.long
def test_without_the_setting_spark_would(other_user: OtherUser) -> None:
    assert any("NettyRpcHandler" in answer for answer in ask_spark(other_user, authenticate=False).values())
