"""stallbench's contract with an adapter in Python: reads the document, records jobs, carries out job faults, answers batches.

Standard library only: it runs in the library's own environment. docs/add-a-library.md describes the contract.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
import zlib
from pathlib import Path


class JobFailedError(Exception):
    """The job fails, as after an error in the application's code."""


def read_document():
    """Return the document: the first line of standard input."""
    return json.loads(sys.stdin.readline())


def tell(**message):
    """Send the bench a message: one JSON object on one line of standard output."""
    print(json.dumps(message), flush=True)


def dsn(endpoint):
    """Return the address of the database as a URL."""
    return "postgresql://{user}:{password}@{host}:{port}/{database}".format(**endpoint)


class Recorder:
    """Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns."""

    def __init__(self, document):
        """Open the event log that the document names."""
        self.name, self.work_s, self.wait = document["name"], document.get("work_s", 0.0), document.get("wait_for_go")
        self.faults = Path(document["job_faults"]) if document.get("job_faults") else None
        self.log = os.open(document["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.random, self.met = random.Random(document.get("seed", 1)), set()
        if self.wait:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    def ready(self):
        """Say that the worker is connected; wait for SIGUSR1 if the bench wants all workers to begin together."""
        tell(ready={})
        if self.wait and signal.sigwait({signal.SIGUSR1, signal.SIGTERM}) == signal.SIGTERM:
            sys.exit(0)

    def write(self, event, job="", attempt="", detail=""):
        """Append an event of `stallbench.records.events`."""
        text = " ".join(str(detail).replace(",", ";").split())
        line = f"{time.time_ns()},{time.monotonic_ns()},{self.name},{event},{job},{attempt},,,{text}\n".encode()
        if os.write(self.log, line) != len(line):
            raise OSError("a record was not written whole; is the disk full?")

    def begin(self, args, attempt=""):
        """Record that a job's handler starts; returns the seconds that its work takes. Raises `JobFailedError`."""
        number, payload = args["n"], args["payload"]
        if zlib.crc32(f"{number}:{payload}".encode()) != args["sum"]:
            self.write("error", number, attempt, "DamagedArguments in claim: they do not match their checksum")
            raise JobFailedError(f"the arguments of job {number} are damaged")
        self.write("claimed", number, attempt)
        met = {name: fault for name, fault in self.active_faults() if self.meets(payload, fault)}
        for name in met.keys() - self.met:
            tell(met=name)
        self.met |= met.keys()
        if any(fault["kills"] and self.announce_kill(name) for name, fault in met.items()):
            os.kill(os.getpid(), signal.SIGKILL)
        if failing := [name for name, fault in met.items() if fault["fails"]]:
            raise JobFailedError(f"a dependency of the job is unavailable ({', '.join(failing)})")
        return max((fault["takes_s"] for fault in met.values() if fault["takes_s"] is not None), default=self.work_s)

    def work(self, args, attempt=""):
        """Execute a job in this thread."""
        time.sleep(self.begin(args, attempt))
        self.write("worked", args["n"], attempt)

    async def work_async(self, args, attempt=""):
        """Execute a job beside others in the event loop."""
        await asyncio.sleep(self.begin(args, attempt))
        self.write("worked", args["n"], attempt)

    def active_faults(self):
        """Yield the name and the content of each job fault that is active for this worker."""
        for path in sorted(self.faults.glob("*.json")) if self.faults else ():
            fault = json.loads(path.read_text()) if path.exists() else {"on": ""}
            if fault["on"] in ("workers", self.name) or (fault["on"] and self.name.startswith(fault["on"] + "-")):
                yield path.stem, fault

    def meets(self, payload, fault):
        """Whether a job fault affects a job, by its mark and its share."""
        affects = fault["kills"] or fault["fails"] or fault["takes_s"] is not None
        is_marked = fault["mark"] is None or json.loads(payload).get("mark") == fault["mark"]
        return affects and is_marked and (fault["share"] >= 1 or self.random.random() < fault["share"])

    def announce_kill(self, name):
        """Announce that a job fault kills this worker now; returns false if it has ended meanwhile."""
        announcement = self.faults / f"{name}.{self.name}.killed"
        announcement.touch()
        if not (is_active := (self.faults / f"{name}.json").exists()):
            announcement.unlink(missing_ok=True)
        return is_active


def serve_batches(enqueue):
    """Call ``enqueue`` with the arguments of each batch that the bench sends, and answer ok, or the error's code and message."""
    tell(ready={})
    for line in sys.stdin:
        try:
            enqueue(json.loads(line)["jobs"])
            tell(ok=True)
        except Exception as error:  # noqa: BLE001 - any error of the library is an answer
            tell(error=getattr(error, "sqlstate", None) or type(error).__name__, message=" ".join(str(error).split()))
