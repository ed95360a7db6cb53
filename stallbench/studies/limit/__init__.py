"""Finds the highest rate at which a queue meets a bound: a ramp and a bisection of real runs.

`slo` reads the bound, `probes` makes the scenario of one run and judges the run, `search` decides which rate is next, `resources` finds what was
exhausted first, `limit` carries out the search, and `screen` prints the result.
"""
