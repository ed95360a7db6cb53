"""The servers of the integration tests, the command line, and a second operating-system user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.conftest import run_here, use_pipeline_service
from tests.integration.conftest import cluster, database, empty_on, open_connection, servers, shared_clusters, started_cluster

__all__ = [
    "cluster",
    "database",
    "empty_on",
    "open_connection",
    "run_here",
    "servers",
    "shared_clusters",
    "started_cluster",
    "use_pipeline_service",
]
_COMMAND_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class OtherUser:
    """An unprivileged user of this machine who is not the bench's."""

    name: str
    uid: int
    gid: int

    def run(self, command: Sequence[str | Path], *, standard_input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the system as this user, in ``/``; a failure is the command's exit code, not an exception."""
        return subprocess.run(
            command,
            user=self.uid,
            group=self.gid,
            extra_groups=[],
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            input=standard_input,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_LIMIT_S,
        )


@pytest.fixture(scope="session")
def other_user() -> OtherUser:
    """``nobody``: only root can act as somebody else."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as a second user of the machine")
    entry = pwd.getpwnam("nobody")
    return OtherUser(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder like ``/tmp``, in which every user may make files, and remove his own."""
    folder = Path(tempfile.mkdtemp(prefix="shared-by-all-users-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)
