"""What a queue can do whose workers may also serve a second queue, such as that of another tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

SECOND_QUEUE = "second_queue"
"""The option by which workers serve it, if they do so only on request."""


class HasSecondQueue:
    """Has at most one other queue beside the default one."""

    second_queue: ClassVar[str] = ""
    """Its name; empty if there is none after all."""
    serves_second_queue: ClassVar[bool] = False
    """Whether its workers do so without the option."""

    @classmethod
    def find_obstacle_to_second_queue(cls, name: str, options: Mapping[str, Any]) -> str | None:
        """Find why jobs of the queue ``name`` would not be executed: the rest of a sentence."""
        if name != cls.second_queue:
            return f"the second queue is called {cls.second_queue}; expected that"
        if not cls.serves_second_queue and not options.get(SECOND_QUEUE):
            return f"the workers serve the default queue only; add {SECOND_QUEUE} = true to [queue]"
        return None
