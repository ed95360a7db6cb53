"""One run, from its servers to its final snapshot: `stallbench.run.run` is the story."""
