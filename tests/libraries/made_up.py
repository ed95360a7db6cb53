"""Libraries with one defect each: the application of the documentation in a folder of its own, or a definition, with changes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import psutil

from stallbench import PROJECT
from stallbench.libraries import LIBRARIES
from stallbench.libraries.definition import read_library

APPLICATION = PROJECT / "tests" / "libraries" / "application"
LEAVE_A_CHILD = """
    import subprocess, sys
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", __file__])
"""
"""Starts a process that does not end by itself; `find_processes` finds it."""


def make_application(folder: Path, **changes: str) -> Path:
    """Make the application in ``folder / "shop"`` and return that folder.

    ``changes``: ``work``, ``produce`` or ``install`` is Python that the adapter executes before that verb; ``backlog`` or ``snapshot`` replaces a
    statement.
    """
    shop = folder / "shop"
    shutil.copytree(APPLICATION, shop)
    (shop / ".venv").symlink_to(sys.prefix)  # Flask is there, because Locust needs it
    adapter, definition = shop / "adapter.py", shop / "library.toml"
    for name, change in changes.items():
        if name in ("backlog", "snapshot"):
            lines = definition.read_text().splitlines()
            definition.write_text("\n".join(f'{name} = "{change}"' if line.startswith(name) else line for line in lines))
        else:
            case = f'    case "{name}":\n'
            text = adapter.read_text()
            assert case in text
            body = "\n".join(f"        {line.strip()}" for line in change.strip().splitlines())
            adapter.write_text(text.replace(case, f"{case}{body}\n"))
    return shop


def find_processes(shop: Path) -> list[psutil.Process]:
    """Return the running processes of the application in ``shop``."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if any(word.startswith(f"{shop}/") for word in process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def read_changed(tmp_path: Path, *changes: str) -> None:
    """Read Procrastinate's definition with changes: a text and what replaces it, and so on."""
    folder = tmp_path / "changed"
    shutil.copytree(LIBRARIES / "procrastinate", folder)
    path = folder / "library.toml"
    text = path.read_text()
    for before, after in zip(changes[::2], changes[1::2], strict=True):
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    read_library(path)
