"""In a folder of runs that all users share, and in the folders that a run shares with a group, a name of another user leads the bench nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stallbench.base.storage.private import UntrustedError
from stallbench.base.storage.targets_file import remove_targets
from stallbench.errors import EXIT_NOT_CARRIED_OUT
from stallbench.processes.supervisor import Supervisor
from stallbench.processes.targets import Targets
from stallbench.queues.registration import INSTRUCTIONS_FILE
from stallbench.run.external_processes import ExternalProcesses
from stallbench.run.folder import RunFolder, create_run_folder, find_run_folder
from stallbench.run.load import Load
from stallbench.run.recorder import describe_queue
from tests.security.conftest import OtherUser
from tests.security.test_joined_runs import CLOSED
from tests.unit.test_compose import FOLDER, without_variants

SCENARIO = without_variants(FOLDER / "scenarios" / "longtx.toml")
RACE_S = 10
RACE = """
import os, sys
path, secret = sys.argv[1:]
while True:
    try:
        os.symlink(secret, path + ".mine")
    except FileExistsError:
        pass
    os.rename(path + ".mine", path)
"""
"""Puts a link in the place of a file again and again."""


@pytest.fixture
def run(shared_folder: Path) -> RunFolder:
    """A run of ours."""
    return create_run_folder(SCENARIO, shared_folder)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A file of ours that nobody else may read."""
    path = tmp_path / "secret"
    path.write_text("keep\n")
    path.chmod(0o600)
    return path


def share(folder: Path, user: OtherUser) -> None:
    """Share a folder as a run does with the group that ``--group`` names."""
    folder.mkdir(exist_ok=True)
    os.chown(folder, -1, user.gid)
    folder.chmod(0o3770)


class TestTargets:
    @pytest.fixture
    def racer(self, shared_folder: Path, run: RunFolder, ours: Path, other_user: OtherUser) -> Iterator[None]:
        """The other user has made the folder first, and puts links in the place of the file."""
        assert other_user.run(["mkdir", shared_folder / "targets"]).returncode == 0
        path = shared_folder / "targets" / f"{run.path.name}.json"
        command = ["/usr/bin/python3", "-c", RACE, str(path), str(ours)]
        process = subprocess.Popen(command, user=other_user.uid, group=other_user.gid, extra_groups=[], cwd="/")
        yield
        process.kill()
        process.wait()

    @pytest.mark.usefixtures("racer")
    def test_the_mode_of_no_other_file_is_changed(self, run: RunFolder, ours: Path) -> None:
        targets = None
        until_s = time.monotonic() + RACE_S
        refused = 0
        while time.monotonic() < until_s and ours.stat().st_mode & 0o044 == 0 and not refused:
            try:
                targets = targets or Targets(run.path, {}, "127.0.0.1")
                targets.say_phase(f"phase-{time.monotonic_ns()}")
            except UntrustedError:
                refused += 1
            except OSError:
                continue
        assert (oct(ours.stat().st_mode & 0o777), ours.read_text(), refused) == ("0o600", "keep\n", 1)

    def test_a_folder_of_another_user_is_refused_by_its_name(self, run: RunFolder, other_user: OtherUser) -> None:
        folder = run.path.parent / "targets"
        assert other_user.run(["mkdir", folder]).returncode == 0
        with pytest.raises(UntrustedError, match=f"{folder}: belongs to {other_user.name}; expected root"):
            Targets(run.path, {}, "127.0.0.1")

    def test_nothing_is_written_or_removed_through_a_link(self, run: RunFolder, tmp_path: Path, other_user: OtherUser) -> None:
        outside = tmp_path / "private"
        outside.mkdir()
        (outside / f"{run.path.name}.json").write_text("keep")
        assert other_user.run(["ln", "-s", str(outside), str(run.path.parent / "targets")]).returncode == 0
        with pytest.raises(UntrustedError, match="and no link"):
            Targets(run.path, {}, "127.0.0.1")
        with pytest.raises(UntrustedError, match="and no link"):
            remove_targets(run.path)
        assert [path.read_text() for path in outside.iterdir()] == ["keep"]

    def test_the_file_of_ours_can_be_read_by_prometheus(self, run: RunFolder, other_user: OtherUser) -> None:
        targets = Targets(run.path, {}, "127.0.0.1")
        earlier = os.umask(0o077)
        try:
            targets.say_phase("steady")
        finally:
            os.umask(earlier)
        path = run.path.parent / "targets" / f"{run.path.name}.json"
        assert other_user.run(["cat", path]).stdout == "[]"
        targets.end()
        assert not list(path.parent.iterdir())


class TestGroup:
    """A member of the group makes a link where the bench, or a process of a run, is about to write."""

    def test_a_request_to_stop_is_written_through_no_link(self, run: RunFolder, tmp_path: Path, other_user: OtherUser) -> None:
        external, elsewhere = run.path / "external", tmp_path / "nologin"
        run.path.chmod(0o711)
        share(external, other_user)
        (external / INSTRUCTIONS_FILE).write_text("{}")
        for name, to in (("stop-worker", elsewhere), ("stop-producer", external)):
            assert other_user.run(["ln", "-s", str(to), str(external / name)]).returncode == 0
        assert other_user.run(["mkdir", external / "stop-longrunner"]).returncode == 0
        for role in ("worker", "producer", "longrunner"):
            ExternalProcesses(run).stop(role, 0.1)
            assert (external / f"stop-{role}").exists(), "the processes are asked to stop"
        assert not elsewhere.exists()
        assert not (external / "stop-worker").is_symlink()

    @pytest.mark.parametrize("language", ["procrastinate", "river", "laravel", "delayed_job", "pg_boss", "db_scheduler"])
    def test_the_worker_of_no_library_starts_with_a_log_that_is_a_link(
        self, run: RunFolder, ours: Path, other_user: OtherUser, language: str
    ) -> None:
        """Its log is opened by the library's own process, in one of six languages."""
        scenario = SCENARIO.model_copy(update={"queue": type(SCENARIO.queue)(kind=f"library:{language}")})
        run.path.chmod(0o711)
        share(run.events, other_user)
        assert other_user.run(["ln", "-s", str(ours), str(run.events / "worker-1.csv")]).returncode == 0
        load = Load(scenario, describe_queue(scenario), CLOSED, processes=Supervisor("none"), folder=run)
        with pytest.raises(Exception, match=r"worker-1\.csv: the log of worker-1 cannot be made") as raised:
            load.start_workers()
        assert getattr(raised.value, "exit_code", None) == EXIT_NOT_CARRIED_OUT
        assert ours.read_text() == "keep\n"
        assert not list(run.logs.iterdir()), "no process has started"

    def test_the_log_of_ours_cannot_be_replaced_by_a_member_before_the_worker_opens_it(
        self, run: RunFolder, ours: Path, other_user: OtherUser
    ) -> None:
        run.path.chmod(0o711)
        share(run.events, other_user)
        load = Load(SCENARIO, describe_queue(SCENARIO), CLOSED, processes=Supervisor("none"), folder=run)
        load._make_log("worker-1")
        path = run.events / "worker-1.csv"
        assert other_user.run(["ln", "-sf", ours, path]).returncode != 0
        assert other_user.run(["rm", "-f", path]).returncode != 0
        assert not path.is_symlink()

    def test_the_results_of_locust_are_written_through_no_link(self, run: RunFolder, ours: Path, other_user: OtherUser) -> None:
        run.path.chmod(0o711)
        share(run.locust, other_user)
        path = run.locust / "producer-1.json"
        assert other_user.run(["ln", "-s", str(ours), str(path)]).returncode == 0
        code = """if True:
            import locust, sys
            from pathlib import Path
            from producers.locust_verdict import LocustJudgement
            from stallbench.scenario.locust_bounds import LocustBounds
            values = {"result": "pass", "requests": 1, "failures": 0, "response_ms": {}, "reasons": ()}
            LocustJudgement.model_construct(bounds=LocustBounds.model_construct(), **values).write(Path(sys.argv[1]))
            """
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)  # Locust changes the process that imports it
        assert (ours.read_text(), path.is_symlink()) == ("keep\n", False)
        assert '"pass"' in path.read_text()


class TestLatest:
    def test_a_link_of_another_user_is_not_opened(self, shared_folder: Path, other_user: OtherUser) -> None:
        script = f"mkdir {shared_folder}/evil; echo '{{}}' >{shared_folder}/evil/run.json; ln -s evil {shared_folder}/latest"
        assert other_user.run(["sh", "-c", script]).returncode == 0
        with pytest.raises(UntrustedError, match=f"latest: is a link that belongs to {other_user.name}"):
            find_run_folder("latest", shared_folder)

    def test_the_link_of_the_owner_of_the_folder_of_runs_is_opened(self, shared_folder: Path, run: RunFolder) -> None:
        """As in a volume of a container, which belongs to a user of the machine."""
        run.record.write_text("{}")
        for path in (shared_folder, shared_folder / "latest"):
            os.chown(path, 12345, 12345, follow_symlinks=False)
        assert find_run_folder("latest", shared_folder) == run

    @pytest.mark.parametrize("by", ["mkdir", "touch"])
    def test_what_another_user_has_given_the_name_keeps_no_run_from_starting(
        self, shared_folder: Path, other_user: OtherUser, by: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert other_user.run([by, shared_folder / "latest"]).returncode == 0
        created = create_run_folder(SCENARIO, shared_folder)
        assert created.events.is_dir()
        if by == "mkdir":  # root replaces a file of anybody
            assert f"{shared_folder / 'latest'} is not the newest run: Is a directory" in " ".join(capfd.readouterr().err.split())
        assert not list(shared_folder.glob(".latest*"))
