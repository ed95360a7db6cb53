"""The article's stores on Aerospike itself: loaded only by who uses them, for their client is an extra. Never run against a server yet."""
