"""Makes pages from tables and verdict: one HTML file that opens anywhere, JUnit for CI, Markdown for a pull request."""

from stallbench.report.page import make_report
from stallbench.report.templates import open_template

__all__ = ["make_report", "open_template"]
