"""Forecasts when a queue saturates: a cost model of its claims, fitted to one short run and applied to another load.

`observation` reads the run, `cost_model` fits the model, `capacity` gives the jobs per second at each number of dead tuples, `trajectory` follows them
over time, `prediction` makes the forecast, `backtest` compares it with another run, and `screen` prints it. docs/forecast.md explains the model.
"""
