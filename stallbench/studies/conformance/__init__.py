"""Tries every promise of one queue: its operations, one promise after the other, and then a load at every crash point (`stallbench.studies.torture`)."""
