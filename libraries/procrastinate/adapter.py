"""Procrastinate, as its documentation recommends: deferred in batches, and a worker that listens and polls (`procrastinate worker`)."""

import asyncio
import logging
import signal
import sys
from pathlib import Path

import psycopg
from stallbench_contract import JobFailedError, JobsRefusedError, Recorder, dsn, read_document, serve_batches
from stallbench_migration import answer_for, import_version

QUEUE = "stallbench"
verb, document = sys.argv[1], read_document()
version, upgrade_to = (document["queue_options"][name] for name in ("version", "upgrade_to"))
procrastinate = import_version("procrastinate", upgrade_to if verb == "migrate" or document.get("upgraded") else version)


def make_app(document):
    """Return the application; its connector keeps a pool of connections."""
    endpoint, of_connections = document["endpoint"], {"application_name": f"stallbench:{document['name']}"}
    if not endpoint["prepared_statements"]:
        of_connections["prepare_threshold"] = None
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn(endpoint), kwargs=of_connections))


class Completions(logging.Handler):
    """Records a completion when Procrastinate logs that it has stored the job's new status."""

    def __init__(self, recorder):
        """Record with the worker's ``recorder``."""
        super().__init__(logging.DEBUG)
        self.recorder = recorder

    def emit(self, record):
        """Record the end of a job, if ``record`` is about that."""
        if getattr(record, "action", "") == "finish_task" and record.job["task_name"] == "job":
            job = record.job
            event = "completed" if record.status == procrastinate.jobs.Status.SUCCEEDED else "failed"
            self.recorder.write(event, job["task_kwargs"]["job"]["n"], job["attempts"] + 1)


def add_periodic_job(app, period, recorder):
    """Let the worker defer a job every ``period`` seconds, and execute it. A sixth field of cron has seconds."""

    @app.periodic(cron="* * * * *" if period == 60 else f"* * * * * */{period}")
    @app.task(name="periodic", queue="periodic", pass_context=True)
    async def fire(context, timestamp):
        recorder.write("fired", timestamp // period, context.job.attempts + 1, context.job.id)


async def work(document):
    """Run a worker until SIGTERM."""
    recorder, app, options = Recorder(document), make_app(document), document["queue_options"]

    @app.task(name="job", queue=QUEUE, pass_context=True)
    async def execute(context, job):
        await recorder.work_async(job, context.job.attempts + 1)

    if period := options["periodic"]:
        add_periodic_job(app, period, recorder)
    logger = logging.getLogger("procrastinate")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Completions(recorder))
    warnings = logging.StreamHandler()  # as if the logger had no handler of its own
    warnings.setLevel(logging.WARNING)
    logger.addHandler(warnings)
    logger.propagate = False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until the library's worker has a handler of its own
    async with app.open_async():
        recorder.ready()
        await app.run_worker_async(
            name=document["name"], concurrency=options["concurrency"], fetch_job_polling_interval=options["polling_interval"]
        )


def produce(document):
    """Defer each batch in one statement, before 3.2 in one for each job. A job with a key is alone in its batch; a batch is of one queue."""
    app = make_app(document)

    @app.task(name="job", queue=QUEUE)
    def execute(job):
        raise JobFailedError("the producer executes no job")

    def enqueue(jobs):
        try:
            deferrer = execute.configure(queueing_lock=jobs[0].get("key"), queue=jobs[0].get("queue", QUEUE))
            if hasattr(deferrer, "batch_defer"):
                deferrer.batch_defer(*({"job": job} for job in jobs))
            else:
                for job in jobs:
                    deferrer.defer(job=job)
        except procrastinate.exceptions.AlreadyEnqueued as error:
            raise JobsRefusedError(str(error)) from error

    with app.open():
        serve_batches(enqueue)


async def prune(document):
    """Delete jobs that ended more than 72 hours ago: what the task `remove_old_jobs` does, with the documentation's `max_hours`."""
    async with make_app(document).open_async() as app:
        await app.job_manager.delete_old_jobs(nb_hours=72)


def install(document):
    """Create the schema."""
    with make_app(document).open() as app:
        app.schema_manager.apply_schema()


def migrate(document):
    """Execute the newer version's SQL files for before its deployment, or, once that has begun, those for after it.

    The files of one part are one transaction, so that a failed attempt can be repeated.
    """
    part, before = "post" if document["upgraded"] else "pre", ".".join(number.zfill(2) for number in version.split("."))
    files = Path(procrastinate.schema.SchemaManager.get_migrations_path()).glob(f"*_{part}_*.sql")
    newer = sorted(path for path in files if path.name.partition("_")[0] > before)
    with psycopg.connect(dsn(document["endpoint"]), autocommit=True) as connection:
        connection.execute("\n".join(path.read_text() for path in newer))


if __name__ == "__main__":
    match verb:
        case "install":
            install(document)
        case "migrate":
            answer_for(lambda: migrate(document))
        case "produce":
            produce(document)
        case "work":
            asyncio.run(work(document))
        case "prune":
            asyncio.run(prune(document))
