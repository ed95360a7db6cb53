"""Processes that make a queue's jobs ready when their time has come. Start one with ``python -m schedulers``."""
