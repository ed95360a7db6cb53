"""A file is replaced as a whole or not at all, and an error names it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stallbench.base.storage.atomic_file import replace_file


def test_a_full_disk_leaves_the_old_content_and_is_reported_with_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "run.json"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left on device") as caught:
        replace_file(path, "new")
    assert caught.value.filename == str(path), "a write names no file by itself"
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_folder_that_is_gone_is_reported_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        replace_file(tmp_path / "gone" / "run.json", "new")
    assert caught.value.filename == str(tmp_path / "gone" / "run.json")
