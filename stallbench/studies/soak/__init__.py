"""Repeats a scenario on the same servers, tables and processes for hours, and measures what drifts.

`stallbench.studies.soak.soak` carries out a soak; docs/decisions/0008-what-a-cycle-is.md explains what a cycle is.
"""
