// The time of the bench in an adapter in JavaScript, also while the fault `clock_skew` changes the wall clock of the process.
// Node's own modules only, like stallbench_contract.mjs.

/** From this difference on, a clock is off: what a process may wait between the readings of two clocks is usually less. */
const OFF_MS = 20;

/**
 * Reads the wall clock in nanoseconds; if a scenario changes that of workers, the monotonic clock and the distance between the two that the bench
 * gives.
 *
 * Node has the wall clock in milliseconds only, or as `performance.timeOrigin`, which is ahead by as long as the process stood still while Node
 * started. So its distance to the monotonic clock is narrowed down, and again when it has changed.
 */
export class Clock {
  constructor({ clock_ns }) {
    this.isGiven = clock_ns !== undefined;
    if (this.isGiven) this.offset_ns = BigInt(clock_ns);
  }

  /** Returns the bench's time, in nanoseconds since 1970. */
  read() {
    const mono_ns = process.hrtime.bigint();
    const ahead_ms = (mono_ns + (this.offset_ns ?? 0n)) / 1_000_000n - BigInt(Date.now());
    if (!this.isGiven && (ahead_ms < -1n || ahead_ms > 0n)) this.findOffset();
    return process.hrtime.bigint() + this.offset_ns;
  }

  /** Whether the process's wall clock shows another time, which it does while the fault is active. */
  isOff() {
    return Math.abs(Number(this.read() / 1_000_000n) - Date.now()) > OFF_MS;
  }

  findOffset() {
    const end_ns = process.hrtime.bigint() + 20_000_000n;
    let low_ns, high_ns, before_ns, after_ns;
    do { // the wall clock was at this millisecond at some time between the two readings
      before_ns = process.hrtime.bigint();
      const wall_ns = BigInt(Date.now()) * 1_000_000n;
      after_ns = process.hrtime.bigint();
      if (low_ns === undefined || wall_ns - after_ns > low_ns) low_ns = wall_ns - after_ns;
      if (high_ns === undefined || wall_ns + 1_000_000n - before_ns < high_ns) high_ns = wall_ns + 1_000_000n - before_ns;
    } while (high_ns - low_ns > 2_000n && after_ns < end_ns);
    this.offset_ns = low_ns;
  }
}
