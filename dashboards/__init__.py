"""Grafana dashboards of runs, as code: ``python -m dashboards`` writes the JSON that is provisioned and pushed."""

from __future__ import annotations

from dashboards.compare import compare
from dashboards.run import run
from dashboards.server import server

DASHBOARDS = {"run": run, "compare": compare, "server": server}
"""What makes each, by the name of its file."""
