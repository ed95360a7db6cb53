"""What a run injects (faults, longrunners, maintenance), with one lifecycle for all of them."""
