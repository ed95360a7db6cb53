"""Compares variants of a scenario: plan, runs, statistics, assessment of mitigations, and pages.

`stallbench.comparison.comparison` carries the runs out; `stallbench.comparison.conclusion` makes the results and pages from folders alone.
"""
