"""What every other package may use, and what uses none of them: the types of settings, durations, ports."""
