"""What a job's work is: it takes its time, and fails, lasts, or kills its worker where a condition says so."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping

from stallbench.conditions import Condition, Conditions
from stallbench.queues import Claim
from stallbench.role import say


class WorkFailedError(Exception):
    """The job's work failed, as the application's code would raise; the message is for the queue."""


class Work:
    """Does the work of one worker's jobs, one after the other."""

    def __init__(self, work_s: float, conditions: Conditions, chance: random.Random) -> None:
        """``work_s``: how long a job takes if nothing is wrong."""
        self._work_s = work_s
        self._conditions = conditions
        self._random = chance
        self._met: set[str] = set()

    def do(self, claim: Claim) -> None:
        """Work a job; raises `WorkFailedError` if it fails."""
        struck = {name: condition for name, condition in self._conditions.look().items() if self._is_struck(claim, condition)}
        self.tell(struck)
        lasting_s = [condition.takes_s for condition in struck.values() if condition.takes_s is not None]
        time.sleep(max(lasting_s, default=self._work_s))
        # One that has been lifted meanwhile is mended code, and kills nobody.
        if any(condition.kills and self._conditions.announce_death(name) for name, condition in struck.items()):
            os.kill(os.getpid(), signal.SIGKILL)
        failing = [name for name, condition in struck.items() if condition.fails]
        if failing:
            raise WorkFailedError(f"what the job needs is not there ({', '.join(failing)})")

    def tell(self, met: Mapping[str, Condition]) -> None:
        """Say of each condition, once, that it has been met: by that the bench knows that it works."""
        for name in met.keys() - self._met:
            self._met.add(name)
            say(met=name)

    def _is_struck(self, claim: Claim, condition: Condition) -> bool:
        if not (condition.kills or condition.fails or condition.takes_s is not None):
            return False
        if condition.mark is not None and json.loads(claim.payload).get("mark") != condition.mark:
            return False
        return condition.share >= 1 or self._random.random() < condition.share
