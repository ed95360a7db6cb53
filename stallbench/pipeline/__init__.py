"""Turns a run's records into its tables, with Spark: `stallbench.pipeline.make` makes them, `stallbench.pipeline.tables` reads them without Spark.

docs/run-folder.md describes a run's folder and each table.
"""
