"""Creates a user's first scenario, queue and test: copies of ``examples/first-project``, which name one another by their new paths."""

from __future__ import annotations

import json
import os
from pathlib import Path

from stallbench import PROJECT
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.shell_command import format_shell_command

EXAMPLE = PROJECT / "examples" / "first-project"
SCENARIO = "scenario.toml"
QUEUE = "my_queue.py:MyQueue"
TEST = "test_my_queue.py"
_NAMED = {SCENARIO: QUEUE, TEST: SCENARIO}
"""By file: the texts in quotation marks that are replaced by a path."""
_RUN = f"stallbench run ./{SCENARIO}"
"""The command in the comment of the scenario."""


def create_first_project(folder: Path) -> list[Path]:
    """Copy the example into ``folder``, which is created; returns the files. Paths in the files are relative to the working directory. Raises
    `BadInputError`, and writes nothing, if one of the files already exists, or if ``folder`` cannot be a folder.
    """
    for part in (folder, *folder.parents):
        if (part.exists() or part.is_symlink()) and not part.is_dir():
            found = "a file" if part.exists() else "a link to a path that does not exist"
            raise BadInputError(f"{part}: is {found}; expected a folder, or a path at which one can be made")
    targets = {source: folder / source.name for source in sorted(EXAMPLE.iterdir()) if source.is_file()}
    there = [str(target) for target in targets.values() if target.exists() or target.is_symlink()]
    if there:
        raise BadInputError(
            f"{', '.join(there)}: already there; nothing was written; name another folder: stallbench init FOLDER"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, target in targets.items():
            text = source.read_text()
            if named := _NAMED.get(source.name):
                own = json.dumps(str(folder_as_named(folder) / named), ensure_ascii=False)
                text = text.replace(json.dumps(named), own)
            text = text.replace(_RUN, format_run_command(folder))
            with target.open("x") as file:
                file.write(text)
    except OSError as error:
        raise NotCarriedOutError(f"{error.filename or folder}: {error.strerror}") from error
    return list(targets.values())


def format_run_command(folder: Path) -> str:
    """Return the command that runs the scenario in ``folder`` from the working directory."""
    named = folder_as_named(folder)
    return _RUN if named == Path() else format_shell_command(["stallbench", "run", str(named / SCENARIO)])


def folder_as_named(folder: Path) -> Path:
    """Return the folder relative to the working directory if it is below it, else its absolute path."""
    relative = Path(os.path.relpath(folder))
    return folder.resolve() if relative.parts[:1] == ("..",) else relative
