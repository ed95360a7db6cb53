"""Tries the promises that every queue must keep: of its operations, and under load at every crash point. The bench's own queues pass."""
