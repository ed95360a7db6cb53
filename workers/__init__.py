"""Processes that claim jobs, work them, and complete them. Start one with ``python -m workers``."""
