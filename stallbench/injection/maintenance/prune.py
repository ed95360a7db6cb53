"""Runs the command of a published library that deletes old completed jobs, as a user's scheduler does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from stallbench.injection.maintenance.task import Task, TaskOptions
from stallbench.queues import Queue
from stallbench.queues.completed_jobs import HasCompletedJobs
from stallbench.queues.queue_client import opened_queue


class Prune(Task[TaskOptions]):
    """The library's own command, at its documented settings."""

    kind = "prune"
    summary = "runs the library's own command that deletes old completed jobs"
    source = "prune_db_task_results of django-tasks-db, remove_old_jobs of Procrastinate, `dramatiq-pg purge`"
    engines = frozenset({"postgres"})
    on_external = "never"

    @classmethod
    def find_issue(cls, queue: type[Queue[Any]]) -> str | None:
        """Find that the queue is no library, or that the library has no such command."""
        if not issubclass(queue, HasCompletedJobs):
            return f' is "{cls.kind}", which runs a command of a published library, and "{queue.kind}" is none; use delete_rows'
        return f' is "{cls.kind}", which runs a command: {queue.no_prune_command}' if queue.no_prune_command else None

    def iterate(self, connection: Any) -> Iterator[str]:
        """Run the command, and count what it has deleted of the completed jobs that the bench had added."""
        document = self.document
        with opened_queue(document.queue, document.queue_options, document.endpoint, f"maintenance:{document.name}") as queue:
            assert isinstance(queue, HasCompletedJobs)
            before, began_s = queue.count_completed_jobs(), time.monotonic()
            queue.prune()
            took_s = time.monotonic() - began_s
            deleted = before - queue.count_completed_jobs()
        yield f"the command ran for {took_s:.1f} s and deleted {deleted} of {before} completed jobs of earlier days"
