"""A run's folder that another user of the machine can change: nothing is written into it, because a link can be made there at any moment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from stallbench import PROJECT
from stallbench.base.storage.private import UntrustedError
from stallbench.errors import EXIT_NOT_CARRIED_OUT
from stallbench.run.folder import require_own
from tests.end_to_end.conftest import RunHere
from tests.security.conftest import OtherUser
from tests.security.test_sent_folders import outside, says

__all__ = ["outside"]
SAMPLE = PROJECT / "tests" / "small_run"
NAME = "20260101T000000Z-sent"
ATTACK = """
import os, sys
folder, precious = sys.argv[1:]
while not os.path.exists(folder + "/sealed"):
    pass
os.symlink(precious, folder + "/tables")
"""
"""Waits until the folder has been looked at, and puts a link to a folder of who reports in the place of one that is missing."""


@pytest.fixture
def folder(shared_folder: Path) -> Path:
    """A finished run of ours."""
    path = shared_folder / NAME
    shutil.copytree(SAMPLE, path)
    return path


def give(path: Path, user: OtherUser) -> None:
    for each in (path, *path.rglob("*")):
        os.chown(each, user.uid, user.gid)


def test_a_report_of_a_folder_of_another_user_removes_nothing_of_who_reports(
    run_here: RunHere, folder: Path, outside: Path, other_user: OtherUser
) -> None:
    shutil.rmtree(folder / "tables")
    shutil.rmtree(folder / "sealed", ignore_errors=True)
    give(folder, other_user)
    before = sorted(outside.rglob("*"))
    attack = ["/usr/bin/python3", "-c", ATTACK, str(folder), str(outside)]
    with subprocess.Popen(attack, user=other_user.uid, group=other_user.gid, extra_groups=[], cwd="/") as attacker:
        ended = run_here("report", folder)
        attacker.kill()
    assert sorted(outside.rglob("*")) == before
    assert ended.returncode == EXIT_NOT_CARRIED_OUT
    assert f"{folder}: belongs to {other_user.name}; expected root" in says(ended)
    assert f"cp -r {folder}" in says(ended)


@pytest.mark.parametrize("command", [("report",), ("upload",)])
def test_every_command_that_writes_into_a_folder_refuses_that_of_another_user(
    run_here: RunHere, folder: Path, tmp_path: Path, other_user: OtherUser, command: tuple[str, ...]
) -> None:
    give(folder, other_user)
    ended = run_here(*command, folder, *([f"local://{tmp_path}"] if command == ("upload",) else []))
    assert ended.returncode == EXIT_NOT_CARRIED_OUT
    assert f"belongs to {other_user.name}" in says(ended)
    copied = tmp_path / "copied"
    subprocess.run(["/bin/cp", "-r", folder, copied], check=True)
    require_own(copied)


def test_a_folder_within_that_is_of_another_user_is_refused(folder: Path, other_user: OtherUser) -> None:
    folder.chmod(0o755)
    os.chown(folder / "events", other_user.uid, other_user.gid)
    with pytest.raises(UntrustedError, match=f"/events: belongs to {other_user.name}"):
        require_own(folder)


@pytest.mark.parametrize("within", [".", "events"])
def test_a_folder_into_which_everybody_may_write_is_refused(folder: Path, within: str) -> None:
    folder.chmod(0o755)
    (folder / within).chmod(0o777)
    with pytest.raises(UntrustedError, match="can be written by every user; expected `chmod o-w`"):
        require_own(folder)


def test_a_folder_that_another_user_can_replace_is_refused(folder: Path, shared_folder: Path) -> None:
    shared_folder.chmod(0o777)  # without the sticky bit
    with pytest.raises(UntrustedError, match="can be written by every user"):
        require_own(folder)


def test_a_folder_of_another_user_is_not_made_ones_own_by_a_group(folder: Path, other_user: OtherUser) -> None:
    give(folder, other_user)
    (folder / "events").chmod(0o3770)
    with pytest.raises(UntrustedError, match=f"belongs to {other_user.name}"):
        require_own(folder)


class TestFoldersOfOnesOwn:
    def test_one_in_a_folder_like_tmp(self, folder: Path) -> None:
        require_own(folder)

    def test_one_whose_parts_have_the_rights_of_a_wide_umask_is_closed_to_others_as_a_whole(self, folder: Path) -> None:
        folder.chmod(0o700)
        (folder / "events").chmod(0o777)
        require_own(folder)

    def test_one_of_root_in_the_working_directory_of_another_user_as_in_a_container(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can act in a folder of somebody else")
        runs = tmp_path / "workspace" / "runs"
        shutil.copytree(SAMPLE, runs / NAME)
        for each in (runs, runs.parent):
            os.chown(each, 41_001, 41_001)
        require_own(runs / NAME)

    def test_one_that_a_group_could_join(self, folder: Path, other_user: OtherUser) -> None:
        os.chown(folder, -1, other_user.gid)
        folder.chmod(0o2750)
        for each in (folder / "events", folder / "external"):
            each.mkdir(exist_ok=True)
            os.chown(each, -1, other_user.gid)
            each.chmod(0o3770)
        of_a_member = folder / "events" / "results"
        of_a_member.mkdir()
        os.chown(of_a_member, other_user.uid, other_user.gid)
        require_own(folder)
