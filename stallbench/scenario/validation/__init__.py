"""What can be wrong with a scenario file: one file for each section; `scenario` runs them all."""
