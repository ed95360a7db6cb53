"""Groups similar deadlocks: a queue has hundreds of a few kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stallbench.engines.deadlocks.deadlock import Deadlock, shape_of
from stallbench.engines.deadlocks.diagram import draw_deadlock

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlockGroup:
    """Deadlocks of the same statements over the same indexes with the same victim."""

    count: int
    victim: str
    """The statement that was rolled back, its constants as ``?``; `UNKNOWN` if the server did not say."""
    others: tuple[str, ...]
    """The statements of the other transactions, which continued."""
    targets: tuple[str, ...]
    """What they waited for: ``jobs.PRIMARY``."""
    example: Deadlock
    """The first of them."""
    diagram: str
    """The example as an inline SVG."""

    @property
    def repeats_job(self) -> bool:
        """Whether the victim is a DELETE: its job was executed, stays in the queue, and is re-executed. One that returns the job is a claim."""
        return self.victim.lower().startswith("delete") and "returning" not in self.victim.lower()


def group_deadlocks(deadlocks: Iterable[Deadlock], names: Mapping[int, str] | None = None) -> Sequence[DeadlockGroup]:
    """Return the groups, the most frequent first; ``names`` has the name of a connection by its thread id.

    A deadlock that was sampled several times counts once: InnoDB's status shows the latest one until there is a later one, and collectors that
    are started again read PostgreSQL's log again.
    """
    distinct = {(d.when, tuple((t.transaction_id, t.thread_id) for t in d.transactions)): d for d in deadlocks}
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[Deadlock]] = {}
    for deadlock in distinct.values():
        victim = shape_of(deadlock.victim.sql, deadlock.server) if deadlock.victim else UNKNOWN
        others = tuple(sorted(shape_of(t.sql, deadlock.server) for t in deadlock.transactions if not t.rolled_back))
        targets = tuple(sorted(wait.lock.target for wait in deadlock.waits()))
        found.setdefault((victim, others, targets), []).append(deadlock)
    groups = [
        DeadlockGroup(
            count=len(alike),
            victim=victim,
            others=others,
            targets=targets,
            example=alike[0],
            diagram=draw_deadlock(alike[0], names),
        )
        for (victim, others, targets), alike in found.items()
    ]
    return sorted(groups, key=lambda group: -group.count)
