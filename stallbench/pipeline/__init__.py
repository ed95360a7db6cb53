"""From a run's records to its tables, in PySpark: pure functions from DataFrame to DataFrame, and one place that
reads and writes.
"""
