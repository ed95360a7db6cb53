"""Finds and installs the components that the bench needs from the machine, and reports what is missing."""
