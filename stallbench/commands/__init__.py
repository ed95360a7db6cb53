"""The commands, one file each: what each takes, and what it prints; `stallbench.cli` has them all."""
