"""The servers that the bench starts: private, on loopback ports, behind Toxiproxy. They are removed at the end of the run."""
