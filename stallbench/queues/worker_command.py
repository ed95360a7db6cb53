"""The command of a worker that is not the bench's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCommand:
    """How to start a worker that is not the bench's."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    orderly_exit_codes: tuple[int, ...] = (0,)
    """Those with which it ends when it is asked to stop; negative: a signal."""

    def environment_for(self, name: str) -> dict[str, str]:
        """Return the environment of the worker ``name``."""
        return {**self.environment, **name_connections(name)}


def name_connections(name: str) -> dict[str, str]:
    """Return the environment variable by which PostgreSQL's clients set the ``application_name`` of their connections.

    libpq (and so psycopg, PDO and Active Record), node-postgres and pgx read it. Faults, collectors and reports find the connections of a
    process by that name.
    """
    return {"PGAPPNAME": f"stallbench:{name}"}
