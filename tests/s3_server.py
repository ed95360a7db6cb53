"""An S3 server on this machine: S3Proxy, which keeps its objects in files, and checks signatures as Amazon's does."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from s3fs import S3FileSystem

from stallbench.processes.parent_death import die_with_parent
from stallbench.setup.components import require_java
from stallbench.setup.jars import require_jars
from tests.waiting import wait_for

BUCKET = "stallbench-runs"
ACCESS_KEY = "key-of-the-test"
SECRET_KEY = "a-secret-that-no-file-may-contain"
_DEADLINE_S = 120.0
_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server with one bucket, `BUCKET`."""

    endpoint: str
    objects: Path
    """The folder of the bucket's objects, each a file."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a client finds the server and may use it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def start_s3_server(folder: Path) -> Iterator[S3Server]:
    """Start a server with its files in ``folder`` on a free loopback port, and end it after the block.

    What `s3fs` keeps of a server that this process used before is forgotten.
    """
    S3FileSystem.clear_instance_cache()
    objects, scratch = folder / "objects", folder / "tmp"
    (objects / BUCKET).mkdir(parents=True)
    scratch.mkdir()
    settings = folder / "s3proxy.conf"
    settings.touch(0o600)
    settings.write_text(
        "s3proxy.endpoint=http://127.0.0.1:0\ns3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={ACCESS_KEY}\ns3proxy.credential={SECRET_KEY}\n"
        f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={objects}\n"
    )
    (jar,) = require_jars("s3proxy")
    log = folder / "s3proxy.log"
    options = [*_JAVA_OPTIONS, f"-Djava.io.tmpdir={scratch}"]
    with log.open("w") as file:
        process = subprocess.Popen(
            [require_java().home / "bin" / "java", *options, "-jar", jar, "--properties", settings],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 - only a system call
        )
    try:
        yield S3Server(f"http://127.0.0.1:{_wait_for_port(log)}", objects / BUCKET)
    finally:
        process.terminate()
        try:
            process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_port(log: Path) -> str:
    started = re.compile(r"ServerConnector.*\{127\.0\.0\.1:(\d+)\}")
    return wait_for(
        lambda: started.search(log.read_text()), lambda: f"{log.read_text()}\nthe port in {log}", _DEADLINE_S, every_s=0.1
    )[1]
