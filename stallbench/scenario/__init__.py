"""Experiments as files: read, laid over by a variant, validated, and turned into one frozen `Scenario`."""
