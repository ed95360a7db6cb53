"""Oban for Python, as its documentation recommends: what `oban start` does, with the documented default of ten jobs at a time."""

import asyncio
import logging
import signal
import sys
from datetime import datetime

import orjson
import uvloop
from oban import Oban, schema, worker
from oban._extensions import put_ext
from oban._query import _ack_jobs
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool
from stallbench_contract import JobFailedError, Recorder, dsn, read_document, serve_batches

QUEUE, SECOND_QUEUE, PERIODIC = "default", "noisy", "periodic"


async def open_pool(document):
    """Open the pool of connections; its defaults are those of `oban start`, which has no setting for prepared statements."""
    address = f"{dsn(document['endpoint'])}?application_name=stallbench:{document['name']}"
    if document["endpoint"]["prepared_statements"]:
        return await Oban.create_pool(address)
    pool = AsyncConnectionPool(address, min_size=1, max_size=10, kwargs={"prepare_threshold": None}, open=False)
    await pool.open()
    return pool


@worker(queue=QUEUE)
class Execute:
    """Executes a job; both processes know the class by the name of this module."""

    recorder = None

    async def process(self, job):
        """Execute a job in the event loop."""
        if self.recorder is None:
            raise JobFailedError("the producer executes no job")
        await self.recorder.work_async(job.args, job.attempt)


def add_periodic_job(recorder):
    """Let the leader insert a job each minute, and this node execute it."""

    @worker(queue=PERIODIC, cron="* * * * *")
    class Fire:
        async def process(self, job):
            period = datetime.fromisoformat(job.meta["cron_at"]).timestamp() // 60
            recorder.write("fired", int(period), job.attempt, job.id)


async def record_acknowledged(recorder, query, acks):
    """Acknowledge a batch as the library does, and record each end that is committed. Returns what the library expects: the jobs updated now.

    A job that is not among them was taken from this worker by a rescue, or an earlier acknowledgement was committed and the answer to it was lost.
    """
    updated = await _ack_jobs(query, acks)
    numbered = [ack for ack in acks if ack.job.queue != PERIODIC]
    ended = [ack for ack in numbered if ack.id in updated or await is_stored(query, ack)]
    for ack in ended:
        error = ack.error["error"].strip().splitlines()[-1] if ack.error else ""
        recorder.write("completed" if ack.state == "completed" else "failed", ack.job.args["n"], ack.job.attempt, error)
    return updated


async def is_stored(query, ack):
    """Whether the end of this attempt is in the table."""
    job = await query.get_job(ack.id)
    return job is not None and (job.state, job.attempted_at) == (ack.state, ack.attempted_at)


async def work(document):
    """Run a worker until SIGTERM."""
    Execute.recorder, options = Recorder(document), document["queue_options"]
    put_ext("query.ack_jobs", lambda query, acks: record_acknowledged(Execute.recorder, query, acks))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    pool = await open_pool(document)
    served = (QUEUE, *[SECOND_QUEUE] * options["second_queue"], *[PERIODIC] * bool(options["periodic"]))
    if options["periodic"]:
        add_periodic_job(Execute.recorder)
    node = Oban(
        pool=pool,
        queues={name: {"limit": options["limit"], "debounce_interval": options["debounce_interval"]} for name in served},
        stager={"interval": options["stage_interval"]},
        lifeline={"rescue_after": options["rescue_after"], "interval": options["rescue_interval"]},
        pruner={"interval": options["prune_interval"], "limit": options["prune_limit"]},
    )
    Execute.recorder.ready()
    async with node:
        await stop.wait()
    await pool.close()


def produce(document):
    """Enqueue each batch in one transaction."""
    attempts = document["queue_options"]["max_attempts"]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        client = Oban(pool=runner.run(open_pool(document)))

        def enqueue(jobs):
            new = [Execute.new(job, queue=job.get("queue", QUEUE), max_attempts=attempts) for job in jobs]
            runner.run(client.enqueue_many(new))

        serve_batches(enqueue)


async def install(document):
    """Create the schema."""
    pool = await open_pool(document)
    await schema.install(pool)
    await pool.close()


if __name__ == "__main__":
    document = read_document()
    logging.basicConfig(level=logging.WARNING)
    set_json_dumps(orjson.dumps)
    set_json_loads(orjson.loads)
    match sys.argv[1]:
        case "install":
            uvloop.run(install(document))
        case "produce":
            produce(document)
        case "work":
            uvloop.run(work(document))
