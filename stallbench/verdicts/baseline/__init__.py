"""Compares runs with a baseline file: earlier runs of the same scenario, whose figures were kept in a small file.

`baseline_file` is the file, `comparability` says what must be the same, `compared_metric` what is compared, `statistics` how, `change` decides what
is a regression, and `against` is what a run's folder keeps of it. The check `stallbench.verdicts.regression` judges a run,
`stallbench.studies.regressions` a comparison. `stallbench.studies.baseline_collection` makes the file from runs.
"""
