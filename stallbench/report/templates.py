"""Opens the templates of ``reports/templates`` with the filters that all pages share. Every text that they show is made visible and escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import jinja2
from markupsafe import Markup

from stallbench import PROJECT
from stallbench.base.number_text import format_value
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.report.markdown import escape_markdown, format_code
from stallbench.visible_text import make_visible

TEMPLATES = PROJECT / "reports" / "templates"


def open_template(name: str, *, autoescape: bool) -> jinja2.Template:
    """Return a template of ``reports/templates`` with the filters ``figure``, ``came`` and ``clock``; a missing variable is an error.

    Without ``autoescape`` it is of Markdown. Every text that it shows is escaped; the filter ``code`` makes code of it.
    """
    return _environment(autoescape).get_template(name)


@cache
def _environment(autoescape: bool) -> jinja2.Environment:
    """Return the environment of all pages of this process, which compiles each template once: a soak makes a page for each cycle."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,  # noqa: S701 - off for Markdown
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.finalize = _show if autoescape else _show_in_markdown
    environment.filters["code"] = format_code
    environment.filters["figure"] = lambda value: "no data" if value is None else format_value(value)
    environment.filters["came"] = lambda value, missing: missing if value is None else format_value(value)
    environment.filters["clock"] = format_clock
    return environment


def _show(value: object) -> object:
    """Make visible what a page of HTML shows; where it has to be, it is escaped afterwards."""
    if isinstance(value, Markup):
        return Markup(make_visible(value))  # noqa: S704 - it was marked as safe by the template
    return make_visible(value) if isinstance(value, str) else value


def _show_in_markdown(value: object) -> object:
    return escape_markdown(value) if isinstance(value, str) else value


def format_clock(t_ns: int | None) -> str:
    """Return a time as a page shows it."""
    return datetime.fromtimestamp(t_ns / NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if t_ns else "never"
