"""Keeps new data folders of servers as templates on this machine, to be unpacked: to initialise one takes seconds of processor time.

A template is one tar file, in which the owners and permissions of its files survive a copy of the cache, a change of its owner and a CI cache.
Only a file of this user is used: a data folder of somebody else could contain what the server executes.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_FRESH = ".new"
_END_MARK = bytes(1024)
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def hash_program(program: Path, *others: object) -> str:
    """Return a part of a template's name that differs for another version of ``program``, and if one of ``others`` differs."""
    path = program.resolve()
    state = path.stat()
    parts = (path, state.st_size, state.st_mtime_ns, *others)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def unpack_template(template: Path, data: Path) -> bool:
    """Unpack a template, with its owners and permissions, as ``data``, which must not exist; returns whether that was possible."""
    with suppress(OSError), open(template, "rb", opener=_open_no_link) as file:
        state = os.fstat(file.fileno())
        if stat.S_ISREG(state.st_mode) and _is_own(state) and _is_whole(file):
            data.mkdir(parents=True)
            extract = ["tar", "--extract", "--numeric-owner", "--preserve-permissions", "--directory", str(data)]
            if subprocess.run(extract, stdin=file, capture_output=True, check=False).returncode == 0:
                return True
            shutil.rmtree(data, ignore_errors=True)
    return False


def keep_as_template(data: Path, template: Path, *, without: Iterable[str] = ()) -> None:
    """Keep a new data folder, but not its files ``without``, in place of what ``template`` was; if that is not possible, the next data folder
    is initialised, too, with a line that says so if the cache belongs to somebody else.
    """
    try:
        if os.path.lexists(template.parent) and not _is_own(template.parent.lstat()):
            shutil.rmtree(template.parent)
        template.parent.mkdir(0o700, parents=True, exist_ok=True)
        with open(template.parent / "lock", "ab", opener=_open_no_link) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh = template.with_name(template.name + _FRESH)
            fresh.unlink(missing_ok=True)
            fresh.touch(0o600, exist_ok=False)
            create = [
                "tar",
                "--create",
                "--numeric-owner",
                "--directory",
                str(data),
                *(f"--exclude=./{name}" for name in without),
                ".",
            ]
            with fresh.open("wb") as file:
                packed = subprocess.run(create, stdout=file, stderr=subprocess.DEVNULL, check=False)
            if packed.returncode == 0:
                if template.is_dir() and not template.is_symlink():  # a cache may contain anything
                    shutil.rmtree(template)
                fresh.replace(template)
            fresh.unlink(missing_ok=True)
    except BlockingIOError:
        return  # another process keeps one just now
    except OSError:
        _say_whose_cache_it_is(template.parent)


def _open_no_link(path: str, flags: int) -> int:
    """Open a file of the cache, which others may have put there: no link, and no pipe, whose other end would be waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _is_whole(file: BinaryIO) -> bool:
    """Whether the archive's end mark is there: where the files after one are missing, tar sees nothing wrong."""
    file.seek(-len(_END_MARK), os.SEEK_END)
    is_whole = file.read() == _END_MARK
    file.seek(0)
    return is_whole


def _is_own(state: os.stat_result) -> bool:
    return state.st_uid == os.geteuid() and not state.st_mode & _WRITABLE_BY_OTHERS


@functools.cache
def _say_whose_cache_it_is(folder: Path) -> None:
    with suppress(OSError):
        if folder.lstat().st_uid != os.geteuid():
            print(
                f"stallbench: {folder} belongs to another user, so each server's data folder is initialised anew, which takes a second; "
                f"remove the folder, as its owner or as root: rm -r {folder}",
                file=sys.stderr,
            )
