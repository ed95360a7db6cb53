"""Variants beside each other: what is planned, what each run's figures come to, and the pages about it.

A comparison reads and writes folders only; `stallbench.comparison.comparison` carries its runs out.
"""
