package stallbench;

import java.time.Instant;
import stallbench.Messages.Document;

/**
 * Reads the wall clock; if a scenario changes that of workers (fault clock_skew), the monotonic clock and the distance between the two that the
 * bench gives.
 */
final class Clock {
  /** From this difference on, a clock is off: what a thread may wait between the readings of two clocks is usually less. */
  private static final long OFF_NS = 20_000_000;

  private final boolean isGiven;
  private final long aheadNs;

  Clock(Document document) {
    isGiven = document.has("clock_ns");
    aheadNs = (long) document.number("clock_ns", 0);
  }

  /** Returns the bench's time, in nanoseconds since 1970. */
  long read() {
    return isGiven ? System.nanoTime() + aheadNs : readWall();
  }

  /** Whether the process's wall clock shows another time, which it does while the fault is active. */
  boolean isOff() {
    return Math.abs(readWall() - read()) > OFF_NS;
  }

  private static long readWall() {
    Instant wall = Instant.now();
    return Math.addExact(wall.getEpochSecond() * 1_000_000_000L, wall.getNano());
  }
}
