"""Compares variants of a scenario: plan, runs, statistics, assessment of mitigations, and pages.

`stallbench.studies.comparison.comparison` carries out the runs; `stallbench.studies.comparison.conclusion` makes the results and pages from the folders.
"""
