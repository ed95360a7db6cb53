"""Diagnoses a live server that the bench did not start, read-only: `stallbench observe`.

A `Diagnostic` reads one subject of the server, one file each in the package of its family of engines, and says what it found. `Observer` goes
through all of them again and again.
"""
