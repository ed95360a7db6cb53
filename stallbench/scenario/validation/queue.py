"""Validates the section ``[queue]``: its kind must exist and run on the engine, and its options must fit the kind."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.base.validation_issue import ValidationIssue, show_value
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines.database import Database
from stallbench.queues import NoQueueError, find_queue, find_queues
from stallbench.queues.completed_jobs import RETAINED, HasCompletedJobs
from stallbench.queues.user_queue import is_user_queue
from stallbench.scenario.validation.keys_and_values import find_key_and_value_issues
from stallbench.scenario.validation.raw_scenario import RawScenario, valid
from stallbench.suggestion import describe_allowed


def find_queue_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find the issues of the queue's kind and options."""
    queue, engine = content.queue, content.table("database").get("engine", Database().engine)
    if queue is None:
        return
    try:
        chosen = find_queue(queue.kind)
    except NoQueueError as error:
        queues, fit = find_queues(), _list_fit(engine)
        if queue.kind.startswith(LIBRARY_PREFIX):
            problems = [f": {line}" for line in str(error).splitlines()]  # a definition may have several issues
        elif is_user_queue(queue.kind):
            problems = [f", which {error}"]
        else:
            problems = [f"; {describe_allowed(queue.kind, fit or list(queues))}"]
        for problem in problems:
            yield ValidationIssue(("queue", "kind"), f" is {show_value(queue.kind)}{problem}")
        return
    if isinstance(engine, str) and engine not in chosen.engines and (fit := _list_fit(engine)):
        engines = ", ".join(sorted(chosen.engines))
        problem = f" is {show_value(queue.kind)}, which runs on {engines}, not on {engine}; expected one of {', '.join(fit)}"
        yield ValidationIssue(("queue", "kind"), problem)
    issues = find_key_and_value_issues(
        chosen.options_type, queue.options, under=("queue",), of=queue.kind, also_allowed=queue.list_keys()
    )
    for issue in issues:
        if issue.path == ("queue", RETAINED) and issubclass(chosen, HasCompletedJobs) and chosen.no_completed_jobs:
            yield ValidationIssue(issue.path, f" is {show_value(queue.options[RETAINED])}, but {chosen.no_completed_jobs}")
        else:
            yield issue
    if not issues and isinstance(engine, str) and engine in chosen.engines:
        found = chosen.find_option_issue(chosen.options_type.model_validate(queue.options), engine)
        if found:
            option, problem = found
            yield ValidationIssue(("queue", option), problem)


def _list_fit(engine: object) -> list[str]:
    """Return the queues that run on ``engine``. Loads all queues, which takes longer than all else that validation does."""
    return [kind for kind, other in find_queues().items() if isinstance(engine, str) and engine in other.engines]


def has_scheduler(content: RawScenario) -> bool:
    """Return whether the queue has a scheduler; false if the section is invalid."""
    try:
        queue = find_queue(content.queue.kind) if content.queue else None
    except NoQueueError:
        return False
    options = valid(queue.options_type, content.queue.options) if queue and content.queue else None
    return bool(queue and options and queue.has_scheduler(options))
