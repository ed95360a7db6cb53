"""Tortures a queue: a process dies or stops at each crash point, and each promise of the queue is judged for each point."""
