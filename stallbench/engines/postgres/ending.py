"""The statements that end what holds PostgreSQL's horizon: of a live server (`stallbench.observe`) and in the report of a run."""

from __future__ import annotations

from stallbench.sql_names import quote_text


def statement_to_terminate(pid: int) -> str:
    """Return the statement that ends a session and rolls its transaction back."""
    return f"SELECT pg_terminate_backend({pid});"


def statement_to_roll_back(gid: str) -> str:
    """Return the statement that ends a prepared transaction."""
    return f"ROLLBACK PREPARED {quote_text(gid).strip()};"


def statement_to_drop(slot: str) -> str:
    """Return the statement that removes an inactive replication slot.

    Without the schema, a function of any user who may create in ``public`` fits better: its argument can be text, which a literal is rather than a name.
    """
    return f"SELECT pg_catalog.pg_drop_replication_slot({quote_text(slot).strip()});"


def statement_to_end(kind: str, key: str) -> str:
    """Return the statement that ends a holder of the horizon, see `Engine.statement_to_end`."""
    match kind:
        case "backend":
            return statement_to_terminate(int(key))
        case "prepared":
            return statement_to_roll_back(key)
        case "slot":
            return statement_to_drop(key)
        case _:
            return ""
