// Job faults in an adapter in JavaScript: jobs that take longer, fail, or kill their worker, and crash points. stallbench_contract.mjs calls them.
// Node's own modules only. `stallbench.injection.job_faults` describes the files.

import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";

/** Sends the bench a message: one JSON object on one line of standard output. */
export function send(message) {
  fs.writeSync(1, JSON.stringify(message) + "\n");
}

/** The job fails, as after an error in the application's code. */
export class JobFailed extends Error {}

/** The queue takes none of the batch's jobs, for example because it is full. */
export class JobsRefused extends Error {}

/** The signal and the announcement of what happens at a crash point. */
const CRASHES = { kill: ["SIGKILL", "killed"], pause: ["SIGSTOP", "stopped"] };

/** Whether the nth draw with a seed hits: the same in every language, from the first 32 bits of a SHA-256. */
function draw(seed, nth, share) {
  return crypto.createHash("sha256").update(`${seed} ${nth}`).digest().readUInt32BE() < share * 2 ** 32;
}

/** The job faults that a worker meets. */
export class Faults {
  constructor(document, clock) {
    this.clock = clock;
    this.name = document.name;
    this.seed = document.seed ?? 1;
    this.work_s = document.work_s ?? 0;
    this.folder = document.job_faults;
    this.met = new Set();
    this.counts = new Map();
  }

  /** Carries out those that affect a job; returns the seconds that its work takes. */
  meet(number, payload) {
    const met = this.readActive().filter(([name, fault]) => this.affects(payload, name, fault));
    for (const [name] of met) {
      if (!this.met.has(name)) send({ met: name });
      this.met.add(name);
    }
    if (met.some(([name, fault]) => fault.kills && this.announce(name, "killed", number))) process.kill(process.pid, "SIGKILL");
    const failing = met.filter(([, fault]) => fault.fails).map(([name]) => name);
    if (failing.length) throw new JobFailed(`a dependency of the job is unavailable (${failing.join(", ")})`);
    const lasting = met.map(([, fault]) => fault.takes_s).filter((takes_s) => takes_s !== null);
    return lasting.length ? Math.max(...lasting) : this.work_s;
  }

  /** Is at a crash point with a job: the process may be killed, or stopped until the bench resumes it, before this returns. */
  pass(point, number) {
    for (const [name, fault] of this.readActive()) {
      if (fault.at !== point || !this.isDue(name, fault)) continue;
      const [signal, announcement] = CRASHES[fault.crash];
      if (this.announce(name, announcement, number)) process.kill(process.pid, signal);
    }
  }

  /** Whether a crash at this point is active. */
  areAt(point) {
    return this.readActive().some(([, fault]) => fault.at === point);
  }

  /** Whether this passage of a crash point crashes: every n-th, or drawn by share. */
  isDue(name, { every_nth, seed, share }) {
    const passage = this.count(name);
    return every_nth === null ? draw(`${seed} ${this.name}`, passage, share) : passage % every_nth === 0;
  }

  /** Returns the name and the content of each job fault that is active for this worker. */
  readActive() {
    if (!this.folder || !fs.existsSync(this.folder)) return [];
    const active = [];
    for (const file of fs.readdirSync(this.folder).filter((each) => each.endsWith(".json")).sort()) {
      try {
        const fault = JSON.parse(fs.readFileSync(path.join(this.folder, file)));
        if (fault.on === "workers" || `${this.name}-`.startsWith(`${fault.on}-`)) active.push([file.slice(0, -5), fault]);
      } catch (error) {
        if (error.code !== "ENOENT") throw error; // it ended just now
      }
    }
    return active;
  }

  /** Whether a job fault affects a job, by its mark and its share, or the clock of this process. */
  affects(payload, name, fault) {
    if (fault.clock_offset_s) return this.clock.isOff();
    if (!fault.kills && !fault.fails && fault.takes_s === null) return false;
    if (fault.mark !== null && JSON.parse(payload).mark !== fault.mark) return false;
    return fault.share >= 1 || draw(`${this.seed} ${name}`, this.count(name), fault.share);
  }

  /** Returns how often this is asked for a job fault: 1 at the first time. */
  count(name) {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    return this.counts.get(name);
  }

  /** Announces that a job fault ends or stops this worker now; returns false if it has ended meanwhile. */
  announce(name, what, number) {
    const announcement = path.join(this.folder, `${name}.${this.name}.${what}`);
    fs.writeFileSync(announcement, String(number));
    if (fs.existsSync(path.join(this.folder, `${name}.json`))) return true;
    fs.rmSync(announcement, { force: true });
    return false;
  }
}
