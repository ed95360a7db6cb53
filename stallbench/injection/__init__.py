"""The injections of a run (faults, longrunners, maintenance), with one life cycle for all of them."""
