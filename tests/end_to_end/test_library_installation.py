"""The installation of a library: where it fails there is one message and nothing is kept; afterwards a run needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stallbench.libraries import LIBRARIES, find_library
from stallbench.libraries.installation import find_missing_requirement, installation_of, require_installed
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, short

pytestmark = [pytest.mark.end_to_end, pytest.mark.libraries]

OF_EACH_LANGUAGE = ("db_scheduler", "delayed_job", "graphile_worker", "laravel", "pgqueuer", "river")
OFFLINE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "offline"]
"""Runs a command with a loopback interface and no other."""


BROKEN_LOCKS: dict[str, tuple[str, Callable[[str], str]]] = {
    "pgqueuer": ("requirements.lock", lambda lock: re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, lock)),
    "graphile_worker": ("package-lock.json", lambda lock: re.sub(r'sha512-[^"]{86}', "sha512-" + "A" * 86, lock)),
    "river": ("go.sum", lambda lock: re.sub(r"h1:[^=]{43}", "h1:" + "A" * 43, lock)),
    "db_scheduler": ("packages.jars", lambda lock: re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, lock)),
    "laravel": ("debian.packages", lambda lock: f"{lock}php-that-debian-does-not-have\n"),
    "delayed_job": ("debian.packages", lambda lock: lock.replace("=4.1.6*", "=4.0.0*")),
}
"""By library, one for each kind of packages: its lock, and what makes it impossible to install."""


@pytest.mark.parametrize("name", BROKEN_LOCKS)
def test_a_library_that_cannot_be_installed_is_one_message_and_nothing_is_kept(bench: Bench, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    shutil.copytree(LIBRARIES / name, folder)
    lock, change = BROKEN_LOCKS[name]
    (folder / lock).write_text(change((folder / lock).read_text()))
    library = find_library(str(folder))
    ended = bench.run("run", "longtx", *short(f"queue.kind=library:{folder}"))
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert ended.stderr.count(f"{library.title_and_version} could not be installed: ") == 1
    assert "Traceback" not in ended.stderr
    assert not installation_of(library).exists()


@pytest.mark.parametrize("name", OF_EACH_LANGUAGE)
def test_an_installed_library_runs_without_a_network(bench: Bench, name: str) -> None:
    if shutil.which("ip") is None or subprocess.run([*OFFLINE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a network namespace needs root, unshare and ip")
    library = find_library(name)
    if missing := find_missing_requirement(library):
        pytest.skip(missing)
    require_installed(library, print)
    stallbench = [sys.executable, "-c", "from stallbench.cli import main; main()"]
    command = [
        *OFFLINE,
        *stallbench,
        "run",
        "longtx",
        *short(f"queue.kind=library:{name}", "producers.rate=20", "workers.count=2"),
    ]
    ended = subprocess.run([*command, "--runs", str(bench.runs)], capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    assert "installing" not in ended.stdout + ended.stderr
    assert re.search(r"[1-9]\d* completed", ended.stdout)
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])
