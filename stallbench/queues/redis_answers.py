"""Observes the answers of Redis, for queues that send several commands in one operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis


def observe_answers_of_redis(connection: redis.Redis, call: Callable[[], None]) -> None:
    """Call ``call`` from now on when the server has answered a command of ``connection``; a pipeline is not observed."""
    execute = connection.execute_command

    def execute_observed(*command: Any, **options: Any) -> Any:
        answer = execute(*command, **options)  # type: ignore[no-untyped-call] # of redis-py
        call()
        return answer

    connection.execute_command = execute_observed  # type: ignore[method-assign] # scripts and commands all come through here
