"""Processes that make a queue's jobs ready when they become due. Start one with ``python -m schedulers``."""
