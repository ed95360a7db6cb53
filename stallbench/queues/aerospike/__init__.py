"""The article's stores on Aerospike. Loaded only when used, because the client library is an extra."""
