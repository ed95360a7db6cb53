"""When a queue will fall behind: the law of its claims, fitted to one short run, and what follows from it at another load.

`observed` reads the run, `law` fits it, `capacity` says how many jobs a second are left at so many dead tuples, `outlook` puts it together, and
`screen` prints it. docs/forecast.md explains the model, and how far it was off.
"""
