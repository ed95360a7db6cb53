"""stallbench's contract with an adapter in Python: reads the document, records jobs, answers batches. `stallbench_faults` carries out job faults.

Standard library only: it runs in the library's own environment. docs/add-a-library.md describes the contract.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
import zlib
from urllib.parse import quote

from stallbench_clock import Clock
from stallbench_codes import code_of
from stallbench_faults import Faults, JobFailedError, JobsRefusedError, send

WAIT_S = 0.2
"""After this, a signal is handled that another thread of the process has received."""


def read_document():
    """Return the document: the first line of standard input."""
    return json.loads(sys.stdin.readline())


def dsn(endpoint, scheme="postgresql"):
    """Return the address of the database as a URL."""
    user, password, database = (quote(endpoint[key], safe="") for key in ("user", "password", "database"))
    return f"{scheme}://{user}:{password}@{endpoint['host']}:{endpoint['port']}/{database}"


class Recorder:
    """Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns."""

    def __init__(self, document):
        """Open the event log that the document names."""
        self.name, self.wait, self.clock = document["name"], document.get("wait_for_go"), Clock(document)
        self.faults = Faults(document, self.clock)
        self.log = os.open(document["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if self.wait:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    def ready(self):
        """Say that the worker is connected; wait for SIGUSR1 if the bench wants all workers to begin together."""
        can_handle = threading.current_thread() is threading.main_thread()
        own = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)) if self.wait and can_handle else None
        send(ready={})
        while self.wait and signal.sigtimedwait({signal.SIGUSR1}, WAIT_S) is None:
            pass
        if own is not None:
            signal.signal(signal.SIGTERM, own)

    def write(self, event, job="", attempt="", detail=""):
        """Append an event of `stallbench.records.events`."""
        text = " ".join(str(detail).replace(",", ";").split())
        line = f"{self.clock.read()},{time.monotonic_ns()},{self.name},{event},{job},{attempt},,,{text}\n".encode()
        if os.write(self.log, line) != len(line):
            raise OSError("a record was not written whole; is the disk full?")
        if event == "completed":
            self.faults.passes("after_completion_acknowledged", job)

    def execute(self, args, attempt=""):
        """Record that a job's handler starts, yield the seconds of each part of its work, and record the end. Raises `JobFailedError`."""
        number, payload = args["n"], args["payload"]
        if zlib.crc32(f"{number}:{payload}".encode()) != args["sum"]:
            self.write("error", number, attempt, "DamagedArguments in claim: they do not match their checksum")
            raise JobFailedError(f"the arguments of job {number} are damaged")
        self.write("claimed", number, attempt)
        self.faults.passes("after_claim", number)
        takes_s = self.faults.meet(number, payload)
        if self.faults.are_at("during_work"):
            takes_s /= 2
            yield takes_s
            self.faults.passes("during_work", number)
        yield takes_s
        self.write("worked", number, attempt)
        self.faults.passes("before_completion", number)

    def work(self, args, attempt=""):
        """Execute a job in this thread."""
        for pause_s in self.execute(args, attempt):
            time.sleep(pause_s)

    async def work_async(self, args, attempt=""):
        """Execute a job beside others in the event loop."""
        for pause_s in self.execute(args, attempt):
            await asyncio.sleep(pause_s)


def serve_batches(enqueue):
    """Call ``enqueue`` with the arguments of each batch that the bench sends, and answer ok, refused, or the error's code and message."""
    send(ready={})
    for line in sys.stdin:
        try:
            enqueue(json.loads(line)["jobs"])
            send(ok=True)
        except JobsRefusedError as refusal:
            send(refused=str(refusal))
        except Exception as error:  # noqa: BLE001 - any error of the library is an answer
            send(error=code_of(error), message=" ".join(str(error).split()))
