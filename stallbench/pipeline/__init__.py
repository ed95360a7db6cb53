"""From a run's records to its tables, by Spark: `stallbench.pipeline.make` makes them, `stallbench.pipeline.tables` reads them back without Spark.

What is in a run's folder, and what each table holds, is in docs/run-folder.md.
"""
