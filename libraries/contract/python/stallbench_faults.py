"""Job faults in an adapter in Python: jobs that take longer, fail, or kill their worker, and crash points. `stallbench_contract` calls them.

Standard library only, like `stallbench_contract`. `stallbench.injection.job_faults` describes the files.
"""

import hashlib
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

CRASHES = {"kill": (signal.SIGKILL, "killed"), "pause": (signal.SIGSTOP, "stopped")}
"""The signal and the announcement of what happens at a crash point."""


class JobFailedError(Exception):
    """The job fails, as after an error in the application's code."""


class JobsRefusedError(Exception):
    """The queue takes none of the batch's jobs, for example because it is full."""


def send(**message):
    """Send the bench a message: one JSON object on one line of standard output.

    That of the process: a library may redirect `sys.stdout` to its log, as Celery does.
    """
    sys.__stdout__.write(json.dumps(message) + "\n")
    sys.__stdout__.flush()


class Faults:
    """The job faults that a worker meets."""

    def __init__(self, document, clock):
        """Read the folder that the document names; without one there are no job faults."""
        self.clock = clock
        self.name, self.seed, self.work_s = document["name"], document.get("seed", 1), document.get("work_s", 0.0)
        self.folder = Path(document["job_faults"]) if document.get("job_faults") else None
        self.met, self.counts, self.lock = set(), Counter(), threading.Lock()

    def meet(self, number, payload):
        """Carry out those that affect a job; returns the seconds that its work takes. Raises `JobFailedError`."""
        met = {name: fault for name, fault in self.read_active() if self.affects(payload, name, fault)}
        for name in met.keys() - self.met:
            send(met=name)
        self.met |= met.keys()
        if any(fault["kills"] and self.announce(name, "killed", number) for name, fault in met.items()):
            os.kill(os.getpid(), signal.SIGKILL)
        if failing := [name for name, fault in met.items() if fault["fails"]]:
            raise JobFailedError(f"a dependency of the job is unavailable ({', '.join(failing)})")
        return max((fault["takes_s"] for fault in met.values() if fault["takes_s"] is not None), default=self.work_s)

    def passes(self, point, number):
        """Be at a crash point with a job: the process may be killed, or stopped until the bench resumes it, before this returns."""
        for name, fault in self.read_active():
            if fault["at"] == point and self.is_due(name, fault):
                crash, announcement = CRASHES[fault["crash"]]
                if self.announce(name, announcement, number):
                    signal.pthread_kill(threading.get_ident(), crash)  # to this thread, which otherwise might go on for a moment

    def are_at(self, point):
        """Whether a crash at this point is active."""
        return any(fault["at"] == point for _, fault in self.read_active())

    def is_due(self, name, fault):
        """Whether this passage of a crash point crashes: every n-th, or drawn by share."""
        passage = self.count(name)
        if fault["every_nth"] is not None:
            return passage % fault["every_nth"] == 0
        return draw(f"{fault['seed']} {self.name}", passage, fault["share"])

    def read_active(self):
        """Yield the name and the content of each job fault that is active for this worker."""
        for path in sorted(self.folder.glob("*.json")) if self.folder else ():
            try:
                fault = json.loads(path.read_text())
            except FileNotFoundError:
                continue  # it ended just now
            if fault["on"] in ("workers", self.name) or self.name.startswith(fault["on"] + "-"):
                yield path.stem, fault

    def affects(self, payload, name, fault):
        """Whether a job fault affects a job, by its mark and its share, or the clock of this process."""
        if fault["clock_offset_s"]:
            return self.clock.is_off()
        if not (fault["kills"] or fault["fails"] or fault["takes_s"] is not None):
            return False
        is_marked = fault["mark"] is None or json.loads(payload).get("mark") == fault["mark"]
        return is_marked and (fault["share"] >= 1 or draw(f"{self.seed} {name}", self.count(name), fault["share"]))

    def count(self, name):
        """Return how often this is asked for a job fault: 1 at the first time."""
        with self.lock:
            self.counts[name] += 1
            return self.counts[name]

    def announce(self, name, what, number):
        """Announce that a job fault ends or stops this worker now; returns false if it has ended meanwhile."""
        announcement = self.folder / f"{name}.{self.name}.{what}"
        announcement.write_text(str(number))
        if not (is_active := (self.folder / f"{name}.json").exists()):
            announcement.unlink(missing_ok=True)
        return is_active


def draw(seed, nth, share):
    """Whether the ``nth`` draw with a seed hits: the same in every language, from the first 32 bits of a SHA-256."""
    return int(hashlib.sha256(f"{seed} {nth}".encode()).hexdigest()[:8], 16) < share * 2**32
