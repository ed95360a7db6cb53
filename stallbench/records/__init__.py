"""What a run writes down: the event log and the sample log, their writers and their column orders.

Everything downstream (pipeline, verdicts, report) reads only these files, so the columns are declared once, here.
"""
