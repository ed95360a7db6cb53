"""Servers and processes that the bench did not start. The bench restores the servers after the run."""
