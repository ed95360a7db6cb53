// graphile-worker, as its documentation recommends: jobs are added in batches, and a runner with a pool of connections listens and polls.

import { JobsRefused, Recorder, answerFor, dsn, load, packageOf, readDocument, serveBatches } from "../contract/javascript/stallbench_contract.mjs";

const verb = process.argv[2], document = await readDocument();
const { version, upgrade_to } = document.queue_options;
const { makeWorkerUtils, run, runMigrations } = load(packageOf("graphile-worker", verb === "migrate" || document.upgraded ? upgrade_to : version));
const pg = load("pg");

/** The statements of dist/sql/completeJobs.js. */
const DELETE_OF_JOBS = /^delete from \S+_private_jobs as jobs/;

/**
 * Returns a pool that records each completion when the server has confirmed the DELETE of the job.
 * The library's event job:complete does not confirm it: it is emitted before the DELETE has ended.
 */
function makeObservedPool(connectionString, max, recorder, numbers) {
  const pool = new pg.Pool({ connectionString, max });
  // The library's documentation asks for both handlers on a pool that it is given. Without the second one, a connection that is lost ends the process.
  pool.on("error", (error) => console.error(error.message));
  pool.on("connect", (client) => {
    client.on("error", (error) => console.error(error.message));
    const query = client.query.bind(client);
    client.query = (...given) => {
      const answer = query(...given);
      if (DELETE_OF_JOBS.test(given[0]?.text ?? "")) {
        answer.then(
          () => [given[0].values[0]].flat().forEach((id) => complete(recorder, numbers, String(id))),
          () => {},
        );
      }
      return answer;
    };
  });
  return pool;
}

function complete(recorder, numbers, id) {
  if (!numbers.has(id)) return;
  recorder.write("completed", ...numbers.get(id));
  numbers.delete(id);
}

async function work(document) {
  const { concurrency, poll_interval, complete_batch_delay, periodic } = document.queue_options;
  const recorder = new Recorder(document);
  const numbers = new Map(); // by the library's id: the bench's number, and the attempt
  const pgPool = makeObservedPool(dsn(document.endpoint), concurrency + 2, recorder, numbers);
  await pgPool.query("SELECT 1");
  await recorder.ready();
  const runner = await run({
    pgPool,
    concurrency,
    pollInterval: 1000 * poll_interval,
    noPreparedStatements: !document.endpoint.prepared_statements,
    preset: complete_batch_delay < 0 ? {} : { worker: { completeJobBatchDelay: 1000 * complete_batch_delay } },
    crontab: periodic ? "* * * * * periodic" : "",
    taskList: {
      periodic: async ({ _cron }, { job }) => recorder.write("fired", Math.floor(Date.parse(_cron.ts) / 60_000), job.attempts, job.id),
      job: async (payload, { job }) => {
        numbers.set(String(job.id), [payload.n, job.attempts]);
        await recorder.work(payload, job.attempts);
      },
    },
  });
  runner.events.on("job:error", ({ job, error }) => recorder.write("failed", job.payload.n, job.attempts, error.message));
  await runner.promise;
  await pgPool.end();
}

async function produce(document) {
  const utils = await makeWorkerUtils({
    connectionString: dsn(document.endpoint),
    noPreparedStatements: !document.endpoint.prepared_statements,
  });
  await serveBatches((jobs) =>
    "key" in jobs[0] ? addUnique(utils, jobs[0]) : addAll(utils, jobs),
  );
  await utils.release();
}

/** Adds the jobs of a batch; earlier versions add them one by one. */
async function addAll(utils, jobs) {
  if (utils.addJobs) await utils.addJobs(jobs.map((payload) => ({ identifier: "job", payload })));
  else for (const payload of jobs) await utils.addJob("job", payload);
}

/** Adds a job with a key, which the bench sends alone. By default, the library would let it replace an earlier job that has the key. */
async function addUnique(utils, payload) {
  const added = await utils.addJob("job", payload, { jobKey: payload.key, jobKeyMode: "unsafe_dedupe" });
  if (added.payload.n !== payload.n) throw new JobsRefused(`there is a job with the key ${payload.key}`);
}

const migrate = () => runMigrations({ connectionString: dsn(document.endpoint) });
switch (verb) {
  case "install":
    await migrate();
    break;
  case "migrate":
    await answerFor(migrate);
    break;
  case "produce":
    await produce(document);
    break;
  case "work":
    await work(document);
}
process.exit(); // with the code that the library has set, if any
