// stallbench's contract with an adapter in JavaScript: reads the document, records jobs, carries out job faults, answers batches.
// Node's own modules only. docs/add-a-library.md describes the contract.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import zlib from "node:zlib";

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Loads a package from the folder in which the bench has installed the library. */
export const load = createRequire(path.join(process.env.STALLBENCH_LIBRARY, "package.json"));

/** Returns the document: the first line of standard input. */
export async function readDocument() {
  return JSON.parse((await lines.next()).value);
}

/** Sends the bench a message: one JSON object on one line of standard output. */
export function tell(message) {
  fs.writeSync(1, JSON.stringify(message) + "\n");
}

/** Returns the address of the database as a URL. */
export function dsn({ user, password, host, port, database }) {
  return `postgresql://${user}:${password}@${host}:${port}/${database}`;
}

/** The job fails, as after an error in the application's code. */
export class JobFailed extends Error {}

/** Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns. */
export class Recorder {
  constructor(document) {
    this.name = document.name;
    this.work_s = document.work_s ?? 0;
    this.faults = document.job_faults;
    this.log = fs.openSync(document.events, "a");
    this.met = new Set();
    this.go = document.wait_for_go ? new Promise((resolve) => process.once("SIGUSR1", resolve)) : Promise.resolve();
  }

  /** Says that the worker is connected; waits for SIGUSR1 if the bench wants all workers to begin together. */
  async ready() {
    tell({ ready: {} });
    await this.go;
  }

  /** Appends an event of `stallbench.records.events`. */
  write(event, job = "", attempt = "", detail = "") {
    const wall_ns = BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000)) * 1000n;
    const text = String(detail).replaceAll(",", ";").replaceAll(/\s+/g, " ");
    const line = Buffer.from([wall_ns, process.hrtime.bigint(), this.name, event, job, attempt, "", "", text].join(",") + "\n");
    if (fs.writeSync(this.log, line) !== line.length) throw new Error("a record was not written whole; is the disk full?");
  }

  /** Executes a job: records that its handler starts, does its work, records the end. */
  async work({ n, sum, payload }, attempt) {
    if (zlib.crc32(`${n}:${payload}`) !== sum) {
      this.write("error", n, attempt, "DamagedArguments in claim: they do not match their checksum");
      throw new JobFailed(`the arguments of job ${n} are damaged`);
    }
    this.write("claimed", n, attempt);
    await sleep(1000 * this.meetFaults(payload));
    this.write("worked", n, attempt);
  }

  /** Carries out the job faults that affect this job; returns the seconds that its work takes. */
  meetFaults(payload) {
    const met = [...this.activeFaults()].filter(([, fault]) => this.meets(payload, fault));
    for (const [name] of met) {
      if (!this.met.has(name)) tell({ met: name });
      this.met.add(name);
    }
    if (met.some(([name, fault]) => fault.kills && this.announceKill(name))) process.kill(process.pid, "SIGKILL");
    const failing = met.filter(([, fault]) => fault.fails).map(([name]) => name);
    if (failing.length) throw new JobFailed(`a dependency of the job is unavailable (${failing.join(", ")})`);
    const lasting = met.map(([, fault]) => fault.takes_s).filter((takes_s) => takes_s !== null);
    return lasting.length ? Math.max(...lasting) : this.work_s;
  }

  *activeFaults() {
    if (!this.faults || !fs.existsSync(this.faults)) return;
    for (const file of fs.readdirSync(this.faults).filter((each) => each.endsWith(".json")).sort()) {
      try {
        const fault = JSON.parse(fs.readFileSync(path.join(this.faults, file)));
        if (["workers", this.name].includes(fault.on) || this.name.startsWith(`${fault.on}-`)) yield [file.slice(0, -5), fault];
      } catch (error) {
        if (error.code !== "ENOENT") throw error; // it ended just now
      }
    }
  }

  meets(payload, fault) {
    if (!fault.kills && !fault.fails && fault.takes_s === null) return false;
    if (fault.mark !== null && JSON.parse(payload).mark !== fault.mark) return false;
    return fault.share >= 1 || Math.random() < fault.share;
  }

  announceKill(name) {
    const announcement = path.join(this.faults, `${name}.${this.name}.killed`);
    fs.closeSync(fs.openSync(announcement, "a"));
    if (fs.existsSync(path.join(this.faults, `${name}.json`))) return true;
    fs.rmSync(announcement, { force: true });
    return false;
  }
}

/** Calls `enqueue` with the arguments of each batch that the bench sends, and answers ok, or the error's code and message. */
export async function serveBatches(enqueue) {
  tell({ ready: {} });
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const answer = await enqueue(JSON.parse(line.value).jobs).then(() => ({ ok: true }), (error) => error);
    tell(answer.ok ? answer : { error: answer.code ?? answer.name, message: String(answer.message).replaceAll(/\s+/g, " ") });
  }
}
