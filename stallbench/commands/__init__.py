"""The commands, one file each: their arguments, options and output. `stallbench.cli` registers them."""
