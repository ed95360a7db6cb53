"""What a PostgreSQL server still knows of a time that is over: what `stallbench observe --since` reads, one file for each subject.

The subjects are `stallbench.observe.diagnostic.Diagnostic` as those of the live report are, and are read by the same observer, once.
"""
