"""The records of a run: the event log and the sample log, with their columns, writers and readers.

Everything downstream (pipeline, verdicts, report, live view) reads only these files, so each column is declared once, here.
"""
