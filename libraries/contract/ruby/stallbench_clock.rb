# The time of the bench in an adapter in Ruby, also while the fault `clock_skew` changes the wall clock of the process.
# Ruby's own libraries only, like stallbench_contract.rb.

module Stallbench
  # From this difference on, a clock is off: what a thread may wait between the readings of two clocks is usually less.
  OFF_NS = 20_000_000

  # Reads the wall clock; if a scenario changes that of workers, the monotonic clock and the distance between the two that the bench gives.
  class Clock
    def initialize(document)
      @ahead_ns = document["clock_ns"]
    end

    # Returns the bench's time, in nanoseconds since 1970.
    def read
      @ahead_ns ? Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) + @ahead_ns : read_wall
    end

    # Whether the process's wall clock shows another time, which it does while the fault is active.
    def off?
      (read_wall - read).abs > OFF_NS
    end

    private

    def read_wall
      Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
    end
  end
end
