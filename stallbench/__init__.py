"""A chaos and degradation test bench for job queues that live in a database."""

__version__ = "0.1.0"
