"""PgQueuer, as its documentation recommends: one asyncpg connection for each process, an entrypoint, and `PgQueuer.run`."""

import asyncio
import json
import signal
import sys
from datetime import timedelta

import asyncpg
from stallbench_contract import JobsRefusedError, Recorder, dsn, read_document, serve_batches
from stallbench_migration import answer_for, import_version

ENTRYPOINT, SECOND_QUEUE = "job", "noisy"
verb, document = sys.argv[1], read_document()
version, upgrade_to = (document["queue_options"][name] for name in ("version", "upgrade_to"))
import_version("pgqueuer", upgrade_to if verb == "migrate" or document.get("upgraded") else version)

from pgqueuer import PgQueuer  # noqa: E402 - the version must be chosen first
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver  # noqa: E402
from pgqueuer.errors import DuplicateJobError  # noqa: E402
from pgqueuer.queries import Queries  # noqa: E402


class RecordingQueries(Queries):
    """Records the end of each job when the server has confirmed the statement that writes a batch of ends."""

    recorder = None

    async def log_jobs(self, job_status):
        """Write the batch, then record it."""
        await super().log_jobs(job_status)
        for job, status, _ in job_status:
            event = "completed" if status == "successful" else "failed"
            self.recorder.write(event, json.loads(job.payload)["n"], "", "" if status == "successful" else status)


def access(document):
    """Return what asyncpg needs to connect as the process that the document names."""
    endpoint, settings = document["endpoint"], {"application_name": f"stallbench:{document['name']}"}
    without_prepared = {} if endpoint["prepared_statements"] else {"statement_cache_size": 0}
    return {"dsn": dsn(endpoint), "server_settings": settings, **without_prepared}


async def connect(document):
    """Open one connection."""
    return await asyncpg.connect(**access(document))


async def open_pool(document):
    """Open a pool, which replaces a connection that is lost. Version 1.0 takes none of less than three; one statement at a time needs one."""
    return await asyncpg.create_pool(min_size=1, max_size=3, **access(document))


def add_periodic_job(queuer, period, recorder):
    """Let the worker execute a schedule every ``period`` seconds. Its row says when it is due next, so this is the period before."""

    @queuer.schedule("periodic", "* * * * *" if period == 60 else f"* * * * * */{period}")
    async def fire(schedule):
        recorder.write("fired", int(schedule.next_run.timestamp()) // period - 1, "", schedule.updated.timestamp())


async def work(document):
    """Run a worker until SIGTERM."""
    recorder, options = Recorder(document), document["queue_options"]
    driver = AsyncpgDriver(await connect(document))
    queries = RecordingQueries(driver)
    queries.recorder = recorder
    queuer = PgQueuer(driver, queries=queries)

    async def execute(job):
        await recorder.work_async(json.loads(job.payload))

    for name in (ENTRYPOINT, *[SECOND_QUEUE] * options["second_queue"]):
        queuer.entrypoint(name, on_failure=options["on_failure"])(execute)

    if period := options["periodic"]:
        add_periodic_job(queuer, period, recorder)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
    recorder.ready()
    await queuer.run(
        dequeue_timeout=timedelta(seconds=options["dequeue_timeout"]),
        batch_size=options["batch_size"],
        heartbeat_timeout=timedelta(seconds=options["heartbeat_timeout"]),
    )


def produce(document):
    """Enqueue each batch in one statement."""
    with asyncio.Runner() as runner:
        queries = Queries(AsyncpgPoolDriver(runner.run(open_pool(document))))

        def enqueue(jobs):
            payloads = [json.dumps(job).encode() for job in jobs]
            keys = [job.get("key") for job in jobs]
            try:
                runner.run(
                    queries.enqueue([job.get("queue", ENTRYPOINT) for job in jobs], payloads, [0] * len(jobs), dedupe_key=keys)
                )
            except DuplicateJobError as error:
                raise JobsRefusedError(str(error)) from error

        serve_batches(enqueue)


async def install(document):
    """Create the schema."""
    await Queries(AsyncpgDriver(await connect(document))).install()


async def migrate(document):
    """Upgrade the schema, as `pgq upgrade` does: on one connection, and each statement is a transaction."""
    await Queries(AsyncpgDriver(await connect(document))).upgrade()


if __name__ == "__main__":
    match verb:
        case "install":
            asyncio.run(install(document))
        case "migrate":
            answer_for(lambda: asyncio.run(migrate(document)))
        case "produce":
            produce(document)
        case "work":
            asyncio.run(work(document))
