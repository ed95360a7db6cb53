"""What is to be published: which of it is current, stale or missing in ``evidence/``, and the command that measures the rest."""
