"""SQLite, which is a library and has no server."""
