"""The statement that ends a session of MariaDB or MySQL: of a live server (`stallbench.observe`) and in the report of a run."""

from __future__ import annotations


def statement_to_kill(thread: int) -> str:
    """Return the statement that ends a session and rolls its transaction back."""
    return f"KILL {thread};"
