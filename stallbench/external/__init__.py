"""Servers and processes that the bench did not start. The servers are left as they were."""
