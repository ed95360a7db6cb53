"""A chaos and degradation test bench for job queues that live in a database."""

from pathlib import Path

__version__ = "0.1.0"

PROJECT = Path(__file__).resolve().parent.parent
"""The folder that the bench runs from: scenarios, templates, dashboards and runs are below it."""
