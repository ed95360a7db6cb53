"""PGMQ by its own client for Python, as its documentation shows: a loop that reads, executes, and archives. PGMQ has no worker of its own."""

import os
import signal
import sys
import time

import psycopg
from pgmq import PGMQueue, install_pgmq_from_sql
from psycopg_pool import ConnectionPool
from stallbench_contract import JobFailedError, Recorder, dsn, read_document, serve_batches

QUEUE = "stallbench"
PAUSE_S = 0.1
"""After an error, and between two reads that do not wait in the server."""


def access(document):
    """Return the parameters of a connection."""
    os.environ["PGAPPNAME"] = f"stallbench:{document['name']}"
    endpoint = document["endpoint"]
    address = {"host": endpoint["host"], "port": str(endpoint["port"]), "database": endpoint["database"]}
    return {**address, "username": endpoint["user"], "password": endpoint["password"]}


def connect(document, **settings):
    """Return the client; PGMQ is installed as SQL, and not as an extension."""
    if document["endpoint"]["prepared_statements"]:
        return PGMQueue(conn_string=None, **access(document), init_extension=False, **settings)
    pool = ConnectionPool(
        dsn(document["endpoint"]), min_size=1, max_size=settings.pop("pool_size", 10), kwargs={"prepare_threshold": None}
    )
    return PGMQueue(conn_string=None, **access(document), init_extension=False, pool=pool, **settings)


class Worker:
    """Reads messages until SIGTERM."""

    def __init__(self, document):
        """Connect."""
        self.options = document["queue_options"]
        self.recorder = Recorder(document)
        self.queue = connect(document, vt=self.options["vt"], pool_size=1)
        self.queue.list_queues()
        self.is_stopped = False

    def stop(self, *_):
        """End after the current message."""
        self.is_stopped = True

    def run(self):
        """Execute one batch after the other."""
        signal.signal(signal.SIGTERM, self.stop)
        while not self.is_stopped:
            try:
                messages = self.read()
            except psycopg.Error as error:
                self.record_error(error, "claim")
                messages = None
            for message in messages or []:
                self.execute(message)
            if messages is None or not (messages or self.options["max_poll_seconds"]):
                time.sleep(PAUSE_S)

    def read(self):
        """Take up to a batch of messages; waits in the server for the first one, if the options say so."""
        if self.options["max_poll_seconds"]:
            return self.queue.read_with_poll(
                QUEUE, qty=self.options["batch_size"], max_poll_seconds=self.options["max_poll_seconds"]
            )
        return self.queue.read_batch(QUEUE, batch_size=self.options["batch_size"])

    def execute(self, message):
        """Execute a message and finish it. One that fails is visible again when its time-out has passed."""
        number, attempt = message.message["n"], message.read_ct
        try:
            self.recorder.work(message.message, attempt)
            finish = self.queue.archive if self.options["finish"] == "archive" else self.queue.delete
            # The client returns when it has committed; the answer is false if another worker has finished the message meanwhile.
            self.recorder.write("completed" if finish(QUEUE, message.msg_id) else "expired", number, attempt)
        except JobFailedError as error:
            self.recorder.write("failed", number, attempt, error)
        except psycopg.Error as error:
            self.record_error(error, "complete", number, attempt)

    def record_error(self, error, operation, *job):
        """Record an error of the database."""
        detail = f"{error.sqlstate or type(error).__name__} in {operation}: {error}"
        self.recorder.write("error", *(job or ("", "")), detail)


def work(document):
    """Run a worker until SIGTERM."""
    worker = Worker(document)
    worker.recorder.ready()
    worker.run()
    worker.queue.close()


def produce(document):
    """Send each batch in one statement."""
    queue = connect(document, pool_size=1)
    serve_batches(lambda jobs: queue.send_batch(QUEUE, jobs))


def install(document):
    """Create PGMQ's schema from the SQL that the package contains, and the queue."""
    install_pgmq_from_sql(**access(document))
    connect(document).create_queue(QUEUE)


if __name__ == "__main__":
    {"install": install, "produce": produce, "work": work}[sys.argv[1]](read_document())
