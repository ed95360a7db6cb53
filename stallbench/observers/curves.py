"""A page that Prometheus serves: it redirects to Prometheus's graphs of the four curves that show a degradation."""

from __future__ import annotations

import html
from urllib.parse import urlencode

CURVES = (
    "histogram_quantile(0.95, sum by (le) (rate(stallbench_claim_seconds_bucket[5s])))",
    "max by (table) (stallbench_dead_tuples) or max by (server) (stallbench_history_list_length)",
    "max(stallbench_queue_depth)",
    "max by (server) (stallbench_oldest_transaction_seconds)",
)
"""Claim time, dead tuples, depth, oldest transaction: as on the dashboard *Run*, but for one run only."""


def curves_page() -> str:
    """Return the page."""
    asked = [
        pair
        for number, expr in enumerate(CURVES)
        for pair in ((f"g{number}.expr", expr), (f"g{number}.tab", "0"), (f"g{number}.range_input", "3m"))
    ]
    address = html.escape(f"../graph?{urlencode(asked)}")
    return f'<!doctype html><title>stallbench</title><meta http-equiv="refresh" content="0; url={address}">\n'
