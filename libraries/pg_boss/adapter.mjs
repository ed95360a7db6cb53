// pg-boss, as its documentation recommends for low latency and backlogs: notifications wake the workers, and a full batch is followed by the next.

import { JobsRefused, Recorder, answerFor, dsn, load, packageOf, readDocument, serveBatches } from "../contract/javascript/stallbench_contract.mjs";

const verb = process.argv[2], document = await readDocument();
const { version, upgrade_to } = document.queue_options;
const packageName = packageOf("pg-boss", verb === "migrate" || document.upgraded ? upgrade_to : version);
const { PgBoss } = load(packageName);
const QUEUE = "stallbench", SECOND_QUEUE = "noisy", PERIODIC = "periodic";
const UNIQUE_S = 3600;

function makeBoss(document) {
  const { endpoint, queue_options } = document;
  const boss = new PgBoss({
    connectionString: dsn(endpoint),
    application_name: process.env.PGAPPNAME, // its own default would hide whose connection it is
    max: queue_options.concurrency + 3,
    useListenNotify: queue_options.notify,
    superviseIntervalSeconds: queue_options.supervise_interval,
    monitorIntervalSeconds: queue_options.supervise_interval,
  });
  boss.on("error", (error) => console.error(error.message));
  return boss;
}

function queuesOf({ queue_options }) {
  return queue_options.second_queue ? [QUEUE, SECOND_QUEUE] : [QUEUE];
}

/** Returns the ids of the jobs that a statement has changed; earlier versions only count them, which is enough if it is all of them. */
function settledIds([, values], row) {
  if (row?.ids) return row.ids;
  if (packageName === "pg-boss" || row?.count === undefined || !values?.[1]) return [];
  const given = typeof values[1] === "string" ? JSON.parse(values[1]).map(({ id }) => id) : values[1];
  return Number(row.count) === given.length ? given : [];
}

/**
 * Calls `onSettled` with the id of each job, and whether it is completed, when the server has confirmed the statement that completes or fails it.
 * It answers with the ids that it has changed, without those whose claim has expired. If a completion cannot be stored, the whole batch is failed.
 */
function observeSettling(boss, onSettled) {
  const db = boss.getDb(), executeSql = db.executeSql.bind(db);
  db.executeSql = async (...given) => {
    const result = await executeSql(...given);
    const isCompleted = /\bstate = 'completed',/.test(given[0]); // dist/plans.js: no statement that fails jobs has this
    for (const id of settledIds(given, result?.rows?.[0])) onSettled(id, isCompleted);
    return result;
  };
}

async function work(document) {
  const { concurrency, batch_size, polling_interval } = document.queue_options;
  const recorder = new Recorder(document);
  const ends = new Map(); // by the library's id: the bench's number, the attempt, and the handler's error, if any
  const boss = makeBoss(document);
  observeSettling(boss, (id, isCompleted) => {
    if (ends.has(id)) recorder.write(isCompleted ? "completed" : "failed", ...ends.get(id));
    ends.delete(id);
  });

  async function execute({ id, data, retryCount }) {
    const attempt = retryCount + 1;
    try {
      await recorder.work(data, attempt);
      ends.set(id, [data.n, attempt]);
      return { id, status: "completed" };
    } catch (error) {
      ends.set(id, [data.n, attempt, error.message]);
      return { id, status: "failed", output: error };
    }
  }

  const asked = new Promise((resolve) => process.once("SIGTERM", resolve));
  await boss.start();
  await recorder.ready();
  for (const queue of queuesOf(document)) {
    await boss.work(
      queue,
      {
        batchSize: batch_size,
        localConcurrency: concurrency,
        pollingIntervalSeconds: polling_interval,
        burstWhenBatchFull: true,
        perJobResults: true,
        includeMetadata: packageName !== "pg-boss", // only the newest version has retryCount without it
      },
      async (jobs) => {
        const results = [];
        for (const job of jobs) results.push(await execute(job));
        return results;
      },
    );
  }
  if (document.queue_options.periodic) await workPeriodic(boss, recorder);
  await asked;
  await boss.stop();
}

/** Finds for which minute a job is: it does not say so itself, but the library's own job does that has sent it (onSendIt in dist/timekeeper.js). */
const SLOT_OF_JOB = `SELECT sender.data->>'slot' AS slot FROM pgboss.job, pgboss.job sender
  WHERE job.name = $1 AND job.id = $2 AND sender.name = '__pgboss__send-it' AND sender.started_on <= job.created_on
  ORDER BY sender.started_on DESC LIMIT 1`;

/** Executes the jobs of the schedule. */
async function workPeriodic(boss, recorder) {
  await boss.work(PERIODIC, async (jobs) => {
    for (const { id } of jobs) {
      const { rows } = await boss.getDb().executeSql(SLOT_OF_JOB, [PERIODIC, id]);
      recorder.write("fired", Date.parse(`${rows[0].slot}Z`) / 60_000, "", id);
    }
  });
}

async function install(document) {
  const boss = makeBoss(document);
  await boss.start();
  const { notify, expire_in } = document.queue_options;
  for (const queue of queuesOf(document)) await boss.createQueue(queue, { notify, expireInSeconds: expire_in });
  if (document.queue_options.periodic) {
    await boss.createQueue(PERIODIC);
    await boss.schedule(PERIODIC, "* * * * *");
  }
  await boss.stop();
}

/** Starts the newer version, which migrates the schema before anything else, as the first process of a deployment does. */
async function migrate(document) {
  await answerFor(async () => {
    const boss = makeBoss(document);
    await boss.start();
    await boss.stop();
  });
}

async function produce(document) {
  const boss = makeBoss(document);
  await boss.start();
  await serveBatches((jobs) => ("key" in jobs[0] ? sendUnique(boss, jobs[0]) : boss.insert(jobs[0].queue ?? QUEUE, jobs.map((data) => ({ data })))));
  await boss.stop();
}

/** Sends a job with a key, which the bench sends alone: the library takes one job for each key in the interval. */
async function sendUnique(boss, data) {
  const id = await boss.send(QUEUE, data, { singletonKey: data.key, singletonSeconds: UNIQUE_S });
  if (id === null) throw new JobsRefused(`there is a job with the key ${data.key}`);
}

await { install, migrate, produce, work }[verb](document);
process.exit(0);
