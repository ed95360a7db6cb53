"""Deadlock reports of servers: parsed, grouped, drawn."""
