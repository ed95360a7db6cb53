"""What another user of the machine reaches on the ports on which the bench's processes listen."""

from __future__ import annotations

import json
from contextlib import suppress

import psutil
from pyspark import SparkContext

from stallbench.pipeline.session import open_session
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


def listening_ports() -> dict[int, str]:
    """Return the addresses of Spark's Java and of this process, which starts it, by port. Servers of other tests may be its children, too."""
    gateway = SparkContext._gateway
    assert gateway is not None
    return {
        connection.laddr.port: connection.laddr.ip
        for process in (psutil.Process(), psutil.Process(gateway.proc.pid))
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def ask_spark(other_user: OtherUser, *, authenticate: bool) -> dict[str, str]:
    settings = {} if authenticate else {"spark.authenticate": "false"}
    with open_session("local[1]", settings=settings):
        ports = listening_ports()
        assert ports
        assert set(ports.values()) <= {"127.0.0.1", "::ffff:127.0.0.1"}, ports
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.ZombieProcess):  # of a session that has ended
                assert "authenticate.secret" not in " ".join(each.cmdline())
        ended = other_user.run(["/usr/bin/python3", "-c", _ASK], standard_input=json.dumps(list(ports)))
        assert ended.returncode == 0, ended.stderr
        return dict(json.loads(ended.stdout))


def test_spark_deserialises_nothing_of_another_user(other_user: OtherUser) -> None:
    """Without the setting it would."""
    answers = ask_spark(other_user, authenticate=True)
    assert any("Expected SaslMessage" in answer for answer in answers.values())
    assert not any("NettyRpcHandler" in answer for answer in answers.values())
    assert any("NettyRpcHandler" in answer for answer in ask_spark(other_user, authenticate=False).values())
