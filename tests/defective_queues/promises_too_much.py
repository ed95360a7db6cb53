"""Defect: a queue with reservations that says that it executes a job once at the most."""

from __future__ import annotations

from stallbench.queues import Promise
from stallbench.queues.laravel import Laravel
from tests.defective_queues.seeded_defect import SeededDefect


class PromisesTooMuch(SeededDefect, Laravel):
    """Executes the jobs of dead workers again, all the same."""

    caught_by = "duplicates"
    tried_under = "deaths"
    promise = Promise.AT_MOST_ONCE
