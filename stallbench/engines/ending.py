"""The statements that end what holds the horizon: of a live server (`stallbench.observe`) and in the report of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stallbench.sql_names import quote_text


def statement_to_terminate(pid: int) -> str:
    """Return the statement of PostgreSQL that ends a session and rolls its transaction back."""
    return f"SELECT pg_terminate_backend({pid});"


def statement_to_kill(pid: int) -> str:
    """Return the statement of MariaDB and MySQL that ends a session and rolls its transaction back."""
    return f"KILL {pid};"


def statement_to_roll_back(gid: str) -> str:
    """Return the statement of PostgreSQL that ends a prepared transaction."""
    return f"ROLLBACK PREPARED {quote_text(gid).strip()};"


def statement_to_drop(slot: str) -> str:
    """Return the statement of PostgreSQL that removes an inactive replication slot.

    Without the schema, a function of any user who may create in ``public`` fits better: its argument can be text, which a literal is rather than a name.
    """
    return f"SELECT pg_catalog.pg_drop_replication_slot({quote_text(slot).strip()});"


_OF_POSTGRES: Mapping[str, Callable[[str], str]] = {
    "backend": lambda pid: statement_to_terminate(int(pid)),
    "prepared": statement_to_roll_back,
    "slot": statement_to_drop,
}


def statement_to_end(engine: str, kind: str, key: str) -> str:
    """Return the statement that ends a holder of the horizon; empty if the bench knows none.

    ``kind``: ``backend``, ``prepared``, ``slot`` or ``replica``. ``key``: its process id, global id or name.
    """
    if engine == "postgres":
        return _OF_POSTGRES[kind](key) if kind in _OF_POSTGRES else ""
    return statement_to_kill(int(key)) if engine in ("mariadb", "mysql") and kind == "backend" else ""
