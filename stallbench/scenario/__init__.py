"""Experiments as files: a file is read, a variant applied, and the result validated; it becomes one frozen `Scenario`."""
