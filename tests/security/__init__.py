"""Attacks on the bench, each carried out: by a hostile database, and by another user of the machine."""
