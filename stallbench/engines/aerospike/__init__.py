"""Aerospike."""
