"""One run, from its servers to its final snapshot. Start reading at `stallbench.run.run`."""
