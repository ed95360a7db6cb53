"""Dramatiq with the broker dramatiq-pg, as the command `dramatiq` runs it: one process with its Worker, whose threads execute messages."""

import signal
import sys
import threading

import dramatiq
import psycopg2
from dramatiq_pg import PostgresBroker, generate_init_sql
from dramatiq_pg.broker import purge
from stallbench_contract import Recorder, dsn, read_document, serve_batches


class Ends(dramatiq.Middleware):
    """Records the end of each message when the broker has confirmed it: Dramatiq calls `after_ack` after the commit."""

    def __init__(self, recorder):
        """Record with the worker's ``recorder``."""
        self.recorder, self.attempts, self.errors = recorder, {}, {}

    def before_process_message(self, broker, message):
        """Remember the number of the attempt, which Dramatiq changes after an error."""
        self.attempts[message.message_id] = attempt_of(message)

    def after_process_message(self, broker, message, *, result=None, exception=None):
        """Remember the error: Dramatiq acknowledges a message also if it has enqueued it again."""
        if exception is not None:
            self.errors[message.message_id] = exception

    def after_ack(self, broker, message):
        """Record what the server has confirmed. A message that waited for its retry is acknowledged, too, when it is enqueued again."""
        if message.queue_name in broker.get_declared_delay_queues():
            return
        error, attempt = self.errors.pop(message.message_id, None), self.attempts.pop(message.message_id, "")
        self.recorder.write("failed" if error else "completed", message.args[0]["n"], attempt, error or "")

    after_nack = after_ack


def attempt_of(message):
    """Return the number of a message's attempt."""
    return message.options.get("retries", 0) + 1


def make_broker(document):
    """Return the broker with Dramatiq's default middleware, except for the figures for Prometheus, which need a folder."""
    middleware = [each() for each in dramatiq.middleware.default_middleware if each is not dramatiq.middleware.Prometheus]
    name = f"?application_name=stallbench:{document['name']}"
    broker = PostgresBroker(url=dsn(document["endpoint"]) + name, middleware=middleware)
    dramatiq.set_broker(broker)
    return broker


def declare(recorder=None):
    """Declare the actor; only a worker has a recorder."""

    @dramatiq.actor(actor_name="job")
    def execute(job):
        message = dramatiq.middleware.CurrentMessage.get_current_message()
        recorder.work(job, attempt_of(message))

    return execute


def work(document):
    """Run a worker until SIGTERM."""
    recorder, stopped = Recorder(document), threading.Event()
    broker = make_broker(document)
    broker.add_middleware(dramatiq.middleware.CurrentMessage())
    broker.add_middleware(Ends(recorder))
    declare(recorder)
    broker.pool.putconn(broker.pool.getconn())
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    recorder.ready()
    worker = dramatiq.Worker(broker, worker_threads=document["queue_options"]["threads"])
    worker.start()
    stopped.wait()
    worker.stop()


def produce(document):
    """Send the messages one by one: there is no call for a batch."""
    make_broker(document)
    execute = declare()
    serve_batches(lambda jobs: [execute.send(job) for job in jobs])


def prune(document):
    """Do what the command `dramatiq-pg purge` does: delete messages that ended 30 days ago or earlier."""
    with psycopg2.connect(dsn(document["endpoint"])) as connection, connection.cursor() as cursor:
        purge(cursor)


def install(document):
    """Create the schema."""
    with psycopg2.connect(dsn(document["endpoint"])) as connection, connection.cursor() as cursor:
        cursor.execute(generate_init_sql())


if __name__ == "__main__":
    {"install": install, "produce": produce, "work": work, "prune": prune}[sys.argv[1]](read_document())
