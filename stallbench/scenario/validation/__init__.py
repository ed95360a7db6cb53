"""Validates scenario files: one module for each section; `scenario` runs all of them."""
