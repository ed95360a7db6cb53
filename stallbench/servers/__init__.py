"""What the bench starts: private servers on loopback ports of their own, behind Toxiproxy, gone when the run is."""
