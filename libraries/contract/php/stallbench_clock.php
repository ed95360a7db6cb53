<?php

// The time of the bench in an adapter in PHP, also while the fault `clock_skew` changes the wall clock of the process.
// PHP's own modules only, like stallbench_contract.php.

namespace Stallbench;

/** From this difference on, a clock is off: what a process may wait between the readings of two clocks is usually less. */
const OFF_NS = 20_000_000;

/** Reads the wall clock; if a scenario changes that of workers, the monotonic clock and the distance between the two that the bench gives. */
class Clock {
    private ?int $ahead_ns;

    public function __construct(array $document) {
        $this->ahead_ns = $document['clock_ns'] ?? null;
    }

    /** Returns the bench's time, in nanoseconds since 1970. */
    public function read(): int {
        return $this->ahead_ns === null ? $this->readWall() : hrtime(true) + $this->ahead_ns;
    }

    /** Whether the process's wall clock shows another time, which it does while the fault is active. */
    public function isOff(): bool {
        return abs($this->readWall() - $this->read()) > OFF_NS;
    }

    /** Returns the wall clock, which PHP has in microseconds. */
    private function readWall(): int {
        return intval(round(microtime(true) * 1e6)) * 1000;
    }
}
