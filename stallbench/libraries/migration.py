"""A library's own migration of its tables to a newer version: the verb ``migrate`` of its adapter, in the background."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stallbench.libraries.adapter import start_verb
from stallbench.libraries.definition import Library

_LAST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class MigrationFailure:
    """Why an attempt failed."""

    code: str
    """An SQLSTATE, or the library's own code; empty if the adapter did not answer."""
    message: str


class MigrationAttempt:
    """One process of the verb ``migrate``. It ends with the bench."""

    def __init__(self, library: Library, document: Mapping[str, object], environment: Mapping[str, str], log: Path) -> None:
        """Start it; its output goes to the end of ``log``. ``environment``: variables besides those of its language."""
        self._library = library
        self._log = log
        with log.open("ab") as output:
            self._began_at = output.tell()
            self._process = start_verb(library, "migrate", environment, output)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as document_to:
            document_to.write(json.dumps(document).encode() + b"\n")

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def find_failure(self) -> MigrationFailure | None:
        """Return why the attempt, which is over, failed; none if the tables were migrated."""
        if self._process.returncode == 0:
            return None
        with self._log.open("rb") as output:
            output.seek(max(self._began_at, self._log.stat().st_size - _LAST_BYTES))
            lines = [line for line in output.read().decode(errors="replace").splitlines() if line.strip()]
        for line in reversed(lines):
            with suppress(ValueError, KeyError, TypeError):
                answer = json.loads(line)
                return MigrationFailure(str(answer["error"]), str(answer["message"]))
        last = f"; it printed last: {lines[-1]}" if lines else "; it printed nothing"
        return MigrationFailure("", f"{self._library.title} ended with exit code {self._process.returncode}{last}")

    def end(self) -> None:
        """Kill it and what it has started, if it still runs; the server rolls its transaction back."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
