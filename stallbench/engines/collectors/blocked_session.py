"""A session that waits for a lock, as the collectors of every engine find it."""

from __future__ import annotations

from typing import NamedTuple

from stallbench.visible_text import raw_of, read_text

_PREPARED = "prepared transaction "


class BlockedSession(NamedTuple):
    """A session that waits for a lock."""

    pid: int
    blocker_pid: int
    """0: a prepared transaction."""
    blocker_application: str
    """Of a prepared transaction ``prepared transaction`` and its gid."""
    blocked_s: float | None
    """None in the first moment."""
    lock: str
    """Mode, kind of the object, and name of the table."""

    @property
    def prepared_gid(self) -> str:
        """The gid of the prepared transaction that blocks; empty if a session does, or if the gid was not found."""
        return read_text(raw_of(self.blocker_application)[len(_PREPARED) :]) if self.blocker_pid == 0 else ""
