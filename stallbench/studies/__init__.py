"""Studies: several runs with one purpose, a folder for each kind. They are compared with baselines by `stallbench.verdicts.baseline`."""
