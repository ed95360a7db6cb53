"""The servers that the bench starts: private, on loopback ports, behind Toxiproxy, removed at the end of the run."""
