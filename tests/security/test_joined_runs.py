"""A process joins a run only of users whom it trusts, and reads and writes nothing else for another user: instructions, queue, password, records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stallbench.base.storage.private import Trust, UntrustedError, find_group, read_trusted, require_trusted
from stallbench.python_command import python_command
from stallbench.queues.registration import read_registrations
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from stallbench.records.events import EventLog
from stallbench.run.external_processes import ExternalProcesses
from stallbench.run.folder import create_run_folder
from stallbench.run.recorder import describe_queue
from stallbench.servers.cluster import Cluster
from tests.security.conftest import OtherUser
from tests.unit.test_compose import FOLDER, without_variants

CLOSED = Endpoint(engine="postgres", host="127.0.0.1", port=1, database="queues", user="me")
QUEUE = "import pathlib\npathlib.Path({mark!r}).write_text('executed')\n"


def instructions(queue: str = "skip_locked", **others: Any) -> str:
    load = {"rate": 1.0, "payload_bytes": 1, "max_batch": 1, "seed": 1}
    endpoint = json.loads(CLOSED.model_dump_json()) | {"password": ""}
    worker = {"work_s": 0.0, "poll_s": 0.1, "seed": 1}
    told = {"endpoints": {"primary": endpoint}, "queue": queue, "queue_options": {}, "worker": worker, "producer": load}
    return json.dumps({**told, **others})


@pytest.fixture
def run(shared_folder: Path) -> Path:
    """The folder of a run of ours that can be joined."""
    run = shared_folder / "runs" / "20300101T000000Z-longtx"
    for folder in (run, run / "events", run / "external"):
        folder.mkdir(mode=0o700, parents=True)
        folder.chmod(0o700)
    run.parent.chmod(0o755)
    (run / "external" / "join.json").write_text(instructions())
    return run


def join(run: Path, *arguments: str, role: str = "workers") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != PASSWORD_VARIABLE}
    command = python_command("stallbench.processes", role, "--join", str(run), *arguments)
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_run_of_ours_is_joined(run: Path) -> None:
    """So the other tests say something: this one fails only because nobody answers at the address."""
    ended = join(run)
    assert f"takes part in {run.name}" in ended.stderr
    assert "cannot continue: connection" in ended.stderr


@pytest.mark.parametrize("role", ["workers", "producers", "longrunners"])
def test_a_run_of_another_user_is_not_joined_and_his_queue_not_executed(
    shared_folder: Path, other_user: OtherUser, role: str
) -> None:
    run, mark = shared_folder / "theirs", shared_folder / "executed"
    queue = f"{run}/queue.py:Evil"
    script = (
        f"mkdir -p {run}/external {run}/events; cat > {run}/external/join.json; echo \"open('{mark}', 'w')\" > {run}/queue.py"
    )
    assert other_user.run(["sh", "-c", script], standard_input=instructions(queue)).returncode == 0
    ended = join(run, role=role)
    assert ended.returncode == 3
    assert f"cannot continue: this run is not joined: {run}" in ended.stderr
    assert f"belongs to {other_user.name}; expected root" in ended.stderr
    assert not mark.exists()


def test_instructions_that_another_user_could_replace_are_not_followed(run: Path, other_user: OtherUser) -> None:
    run.chmod(0o755)
    (run / "external").chmod(0o777)
    path = run / "external" / "join.json"
    script = f"rm -f {path}; cat > {path}"
    assert other_user.run(["sh", "-c", script], standard_input=instructions("/tmp/evil.py:Evil")).returncode == 0
    ended = join(run)
    assert (ended.returncode, f"{run}/external: can be written by every user; expected `chmod o-w`" in ended.stderr) == (3, True)


@pytest.mark.parametrize("by", ["owner", "file", "folder", "link"])
def test_a_queue_that_another_user_could_have_written_is_not_executed(
    run: Path, shared_folder: Path, other_user: OtherUser, by: str
) -> None:
    mark = shared_folder / "executed"
    folder = shared_folder / "project"
    folder.mkdir(mode=0o755)
    file = folder / "queue_of_ours.py"
    file.write_text(QUEUE.format(mark=str(mark)))
    if by == "owner":
        os.chown(file, other_user.uid, -1)
    elif by == "file":
        file.chmod(0o666)
    elif by == "folder":
        folder.chmod(0o777)
    else:
        theirs = shared_folder / "theirs.py"
        assert other_user.run(["sh", "-c", f"cat > {theirs}"], standard_input=file.read_text()).returncode == 0
        file.unlink()
        file.symlink_to(theirs)
    (run / "external" / "join.json").write_text(instructions(f"{file}:Ours"))
    ended = join(run)
    assert (ended.returncode, "is not loaded: " in ended.stderr) == (3, True), ended.stderr
    assert not mark.exists()


@pytest.mark.parametrize("target", ["/etc/shadow", "a file of ours"])
@pytest.mark.parametrize("by", ["instructions", "symlink", "link"])
def test_no_other_file_is_taken_for_the_password(run: Path, shared_folder: Path, target: str, by: str) -> None:
    secret = Path(target)
    if not secret.is_absolute():
        secret = shared_folder / "secret"
        secret.write_text("secret")
    if by == "instructions":
        (run / "external" / "join.json").write_text(instructions(password_file=str(secret)))
    elif by == "symlink":
        (run / "external" / "password").symlink_to(secret)
    elif secret.stat().st_dev == run.stat().st_dev:
        (run / "external" / "password").hardlink_to(secret)
    else:
        pytest.skip("a link cannot lead to another file system")
    ended = join(run)
    assert ended.returncode == 3
    assert (
        "join.json cannot be read: password_file: Extra" if by == "instructions" else "the password is not used: "
    ) in ended.stderr


class TestEvents:
    @pytest.mark.parametrize("by", [["ln", "-s"], ["cp"]])
    def test_a_record_is_written_into_no_file_of_another_user(
        self, shared_folder: Path, other_user: OtherUser, by: list[str]
    ) -> None:
        """In a folder that others can write to, as a group's is: its members could lead a record into a file of ours."""
        ours = shared_folder / "ours"
        ours.write_text("0 0 * * *\n")
        path = shared_folder / "worker-1.csv"
        assert other_user.run([*by, ours, path]).returncode == 0
        with pytest.raises(OSError):  # noqa: PT011 - the text is the system's, or that of the check
            EventLog(path, "worker-1")
        assert ours.read_text() == "0 0 * * *\n"

    def test_a_file_with_a_second_name_is_not_appended_to(self, shared_folder: Path) -> None:
        ours = shared_folder / "ours"
        ours.write_text("0 0 * * *\n")
        (shared_folder / "worker-1.csv").hardlink_to(ours)
        with pytest.raises(OSError, match="has 2 names"):
            EventLog(shared_folder / "worker-1.csv", "worker-1")
        assert ours.read_text() == "0 0 * * *\n"

    def test_a_pipe_that_nobody_reads_is_not_waited_for(self, shared_folder: Path, other_user: OtherUser) -> None:
        assert other_user.run(["mkfifo", shared_folder / "worker-1.csv"]).returncode == 0
        with pytest.raises(OSError, match=r"No such device|is no file"):
            EventLog(shared_folder / "worker-1.csv", "worker-1")


def test_a_registration_that_is_a_pipe_or_a_link_is_left_out(shared_folder: Path, other_user: OtherUser) -> None:
    folder = shared_folder / "external"
    folder.mkdir()
    folder.chmod(0o777)
    assert other_user.run(["mkfifo", folder / "worker-1.json"]).returncode == 0
    assert other_user.run(["ln", "-s", "/etc/passwd", folder / "worker-2.json"]).returncode == 0
    folder.chmod(0o755)
    assert read_registrations(folder) == []


class TestGroup:
    """A folder is shared with the members of a group, if the user says so, and with nobody else."""

    @pytest.fixture
    def group(self, other_user: OtherUser) -> Iterator[str]:
        """A group of the other user, which the owner has allowed."""
        if shutil.which("groupadd") is None:
            pytest.skip("no program makes groups here")
        name = "sb-test-group"
        subprocess.run(["groupadd", "--force", name], check=True)
        subprocess.run(["gpasswd", "--add", other_user.name, name], check=True, capture_output=True)
        yield name
        subprocess.run(["groupdel", name], check=True)

    def test_its_members_are_trusted_by_who_names_it(self, shared_folder: Path, other_user: OtherUser, group: str) -> None:
        path = shared_folder / "theirs" / "join.json"
        script = f"mkdir {path.parent}; chmod 755 {path.parent}; echo hello > {path}"
        assert other_user.run(["sh", "-c", script]).returncode == 0
        assert read_trusted(path, Trust(root=True, group=find_group(group))) == b"hello\n"
        with pytest.raises(UntrustedError, match=f"belongs to {other_user.name}; expected root"):
            read_trusted(path)
        os.chown(path, 1, -1)
        with pytest.raises(UntrustedError, match=f"expected root or a member of the group {group}"):
            read_trusted(path, Trust(root=True, group=find_group(group)))

    def test_a_run_is_shared_with_the_group_that_its_user_names_and_with_nobody_else(
        self, shared_folder: Path, cluster: Cluster, other_user: OtherUser, group: str
    ) -> None:
        def as_other(command: list[str], groups: list[int]) -> int:
            who: dict[str, Any] = {"user": other_user.uid, "group": other_user.gid, "extra_groups": groups}
            return subprocess.run(command, cwd="/", capture_output=True, check=False, **who).returncode

        for named, groups in ((None, [find_group(group)]), (group, []), (group, [find_group(group)])):
            scenario = without_variants(FOLDER / "scenarios" / "longtx.toml")
            folder = create_run_folder(scenario, shared_folder)
            joined = ExternalProcesses(folder, named)
            joined.publish(scenario, describe_queue(scenario), cluster)
            external = folder.path / "external"
            password = cluster.server("primary").direct.password.get_secret_value()
            assert (external / "password").read_text() == password
            may = named is not None and bool(groups)
            for name in ("password", "join.json"):
                assert (as_other(["cat", str(external / name)], groups) == 0) is may
                assert as_other(["mv", "-f", "/etc/hostname", str(external / name)], groups) != 0, "nobody replaces it"
                assert as_other(["rm", "-f", str(external / name)], groups) != 0
                assert as_other(["sh", "-c", f"echo >> {external / name}"], groups) != 0
            assert as_other(["touch", str(folder.path / "run.json")], groups) != 0
            for path in (external / "worker-x.json", folder.events / "worker-x.csv"):
                assert (as_other(["touch", str(path)], groups) == 0) is may
            joined.close()
            assert not (external / "password").exists()

    def test_what_a_foreign_group_can_write_is_not_trusted(self, shared_folder: Path, group: str) -> None:
        folder = shared_folder / "ours"
        folder.mkdir()
        os.chown(folder, -1, find_group(group))
        folder.chmod(0o2770)
        with pytest.raises(UntrustedError, match=f"can be written by the group {group}; expected `chmod g-w`"):
            require_trusted(folder)
        require_trusted(folder, Trust(root=True, group=find_group(group)))


def test_a_folder_of_ours_below_one_of_another_user_is_not_trusted(shared_folder: Path, other_user: OtherUser) -> None:
    """He can replace it by another at any time."""
    above = shared_folder / "theirs"
    assert other_user.run(["mkdir", above]).returncode == 0
    (above / "ours").mkdir(mode=0o700)
    with pytest.raises(UntrustedError, match=f"{above}: belongs to {other_user.name}"):
        require_trusted(above / "ours")


def test_python_itself_and_temporary_folders_of_ours_are_trusted() -> None:
    require_trusted(Path(sys.executable))
    with tempfile.TemporaryDirectory() as folder:
        require_trusted(Path(folder))
