"""Compares runs with a baseline file: earlier runs of the same scenario, whose figures were kept in a small file.

`baseline_file` is the file, `collection` makes it from runs, `comparability` says what must be the same, `change` decides what is a regression,
and `against` is what a run's folder keeps of it. The check `stallbench.verdicts.regression` judges a run, `stallbench.comparison.regressions`
a comparison.
"""
