"""Forecasts when a queue saturates: fits a cost model of its claims to one short run, and applies it to another load.

`measured_run` reads the run, `cost_model` fits the model, `capacity` gives the jobs per second at each number of dead tuples, `trajectory` follows them
over time, `prediction` makes the forecast, `backtest` compares it with another run, and `screen` prints it. docs/forecast.md explains the model.
"""
