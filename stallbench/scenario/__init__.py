"""Scenarios: a file is read, a variant is applied, and the result is validated; it becomes one frozen `Scenario`."""
