"""Mutation testing of the verdict: queues that are wrong in one place, and which promise of `stallbench conform` finds it.

An operator (`sql_operators`, `python_operators`) changes one place of the source of one of the bench's own queues (`sources`). Each mutant is
tried with the promises of a queue's operations, on one server that is kept (`trials`), and those that survive with the crash points
(`crash_trials`). Results are lines of JSON (`results`), from which docs/results/mutants.md is made (`page`).
"""
