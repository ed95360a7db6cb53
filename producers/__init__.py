"""Processes that enqueue jobs. Start one with ``python -m producers``."""
