// stallbench's contract with an adapter in JavaScript: reads the document, records jobs, answers batches.
// stallbench_faults.mjs carries out job faults. Node's own modules only. docs/add-a-library.md describes the contract.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import zlib from "node:zlib";

import { Clock } from "./stallbench_clock.mjs";
import { answerTo } from "./stallbench_codes.mjs";
import { Faults, JobFailed, JobsRefused, send } from "./stallbench_faults.mjs";

export { JobFailed, JobsRefused, send };

let portOfDatabase;

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Loads a package from the folder in which the bench has installed the library. */
export const load = createRequire(path.join(process.env.STALLBENCH_LIBRARY, "package.json"));

/** Returns the name that a version of a package has in package.json; only the newest one has its own. */
export function packageOf(name, version) {
  const earlier = `${name}-${version}`;
  return earlier in load("./package.json").dependencies ? earlier : name;
}

/** Returns the document: the first line of standard input. */
export async function readDocument() {
  const document = JSON.parse((await lines.next()).value);
  portOfDatabase = document.endpoint?.port;
  return document;
}

/** Returns the address of the database as a URL. */
export function dsn({ user, password, host, port, database }) {
  const [account, secret, name] = [user, password, database].map(encodeURIComponent);
  return `postgresql://${account}:${secret}@${host}:${port}/${name}`;
}

/** Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns. */
export class Recorder {
  constructor(document) {
    this.name = document.name;
    this.clock = new Clock(document);
    this.faults = new Faults(document, this.clock);
    this.log = fs.openSync(document.events, "a");
    this.waits = document.wait_for_go ?? false;
    this.go = this.waits ? new Promise((resolve) => process.once("SIGUSR1", resolve)) : Promise.resolve();
  }

  /** Says that the worker is connected; waits for SIGUSR1 if the bench wants all workers to begin together. */
  async ready() {
    const end = () => process.exit(0);
    if (this.waits) process.once("SIGTERM", end);
    send({ ready: {} });
    const alive = setInterval(() => {}, 60_000); // a process that waits for nothing but a signal ends
    await this.go;
    process.removeListener("SIGTERM", end);
    clearInterval(alive);
  }

  /** Appends an event of `stallbench.records.events`. */
  write(event, job = "", attempt = "", detail = "") {
    const wall_ns = this.clock.read();
    const text = String(detail).replaceAll(",", ";").replaceAll(/\s+/g, " ");
    const line = Buffer.from([wall_ns, process.hrtime.bigint(), this.name, event, job, attempt, "", "", text].join(",") + "\n");
    if (fs.writeSync(this.log, line) !== line.length) throw new Error("a record was not written whole; is the disk full?");
    if (event === "completed") this.faults.pass("after_completion_acknowledged", job);
  }

  /** Executes a job: records that its handler starts, does its work, records the end. */
  async work({ n, sum, payload }, attempt) {
    if (zlib.crc32(`${n}:${payload}`) !== sum) {
      this.write("error", n, attempt, "DamagedArguments in claim: they do not match their checksum");
      throw new JobFailed(`the arguments of job ${n} are damaged`);
    }
    this.write("claimed", n, attempt);
    this.faults.pass("after_claim", n);
    let takes_s = this.faults.meet(n, payload);
    if (this.faults.areAt("during_work")) {
      takes_s /= 2;
      await sleep(1000 * takes_s);
      this.faults.pass("during_work", n);
    }
    await sleep(1000 * takes_s);
    this.write("worked", n, attempt);
    this.faults.pass("before_completion", n);
  }
}

/** Calls `enqueue` with the arguments of each batch that the bench sends, and answers ok, refused, or the error's code and message. */
export async function serveBatches(enqueue) {
  send({ ready: {} });
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    send(await answerTo(enqueue(JSON.parse(line.value).jobs), portOfDatabase));
  }
}

/** Carries out a migration, and answers like a batch: ok, or the error's code and message, with exit code 1. */
export async function answerFor(migrate) {
  const answer = await answerTo(migrate(), portOfDatabase);
  send(answer);
  if (!answer.ok) process.exit(1);
}
