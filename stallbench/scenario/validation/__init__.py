"""What can be wrong with a scenario file: one file for each section, and every issue named at once."""
