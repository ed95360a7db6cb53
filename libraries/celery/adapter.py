"""Celery with a database as its broker (Kombu's transport SQLAlchemy), as the command `celery worker` runs it."""

import signal
import sys

from celery import Celery, signals
from kombu.transport.sqlalchemy import Transport  # noqa: F401 - a driver that is missing is an error here, and not at the first message
from stallbench_contract import JobFailedError, Recorder, dsn, read_document, serve_batches

DRIVERS = {"postgres": "postgresql+psycopg", "mariadb": "mysql+pymysql"}


def make_app(document, recorder=None):
    """Return the application with its task; only a worker has a recorder."""
    endpoint = document["endpoint"]
    driver = DRIVERS[endpoint["engine"]]
    app = Celery(broker=dsn(endpoint, f"sqla+{driver}"))
    # Kombu gives these options to SQLAlchemy. MariaDB's driver prepares no statement on the server.
    without_prepared = {"connect_args": {"prepare_threshold": None}} if endpoint["engine"] == "postgres" else {}
    app.conf.update(
        task_ignore_result=True,
        broker_transport_options={} if endpoint["prepared_statements"] else without_prepared,
        worker_enable_remote_control=False,  # the transport has no broadcast
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="job")
    def execute(job):
        if recorder is None:
            raise JobFailedError("the producer executes no job")
        recorder.work(job, 1)

    return app, execute


def work(document):
    """Run a worker until SIGTERM."""
    recorder = Recorder(document)
    app, _ = make_app(document, recorder)

    @signals.task_success.connect(weak=False)
    def record_success(sender, **_):
        recorder.write("completed", sender.request.args[0]["n"], 1)

    @signals.task_failure.connect(weak=False)
    def record_failure(sender, args, exception, **_):
        recorder.write("failed", args[0]["n"], 1, exception)

    @signals.worker_ready.connect(weak=False)
    def be_ready(**_):
        """Wait before the first poll. The signal comes again after a reconnection."""
        signals.worker_ready.disconnect(be_ready)
        recorder.ready()

    threads = document["queue_options"]["threads"]
    pool = ["--pool=threads", f"--concurrency={threads}"] if threads > 1 else ["--pool=solo"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until Celery has loaded its worker, which has a handler of its own
    app.worker_main(["worker", *pool, "--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"])


def produce(document):
    """Send the messages one by one: there is no call for a batch."""
    _, execute = make_app(document)
    serve_batches(lambda jobs: [execute.delay(job) for job in jobs])


def install(document):
    """Let the transport create its tables, as it does when it is first used."""
    app, _ = make_app(document)
    with app.connection_for_write() as connection:
        connection.default_channel.queue_declare("celery")


if __name__ == "__main__":
    {"install": install, "produce": produce, "work": work}[sys.argv[1]](read_document())
