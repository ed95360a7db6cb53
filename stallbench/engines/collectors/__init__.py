"""What can be sampled of servers and host during a run: one file for each subject.

To add a collector, add a file here with a subclass of `Collector`; `stallbench.run.sampling.find_collectors` finds it.
"""

from stallbench.engines.collectors.collector import Collector

__all__ = ["Collector"]
