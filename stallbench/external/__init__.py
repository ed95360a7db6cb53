"""Servers and processes that the bench did not start: joined, adapted, and left as they were."""
