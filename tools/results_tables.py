"""``python -m tools.results_tables``: writes the tables in docs/results.md, docs/results/ and README.md, from ``evidence/``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from stallbench import PROJECT
from stallbench.errors import BadInputError
from stallbench.evidence.collection import EVIDENCE, Collection
from stallbench.evidence.document import EarlierTable
from stallbench.evidence.staleness import OF_EARLIER_VERSIONS
from stallbench.evidence.stored_run import StoredRun
from stallbench.report.markdown import escape_markdown
from stallbench.report.outcome_text import describe_outcome, name_verdict
from stallbench.run.record import read_record
from stallbench.scenario.file import find_scenarios, read_scenario
from tools.generated_blocks import Footnotes, format_heading, write_blocks
from tools.published import LINK, Published, link_run

PAGES = (PROJECT / "docs" / "results.md", *sorted((PROJECT / "docs" / "results").glob("*.md")))
README = PROJECT / "README.md"
PICTURE = "picture"
"""The block of the README with the picture of the sample, whose text is the outcome of that run."""
_SAMPLE = PROJECT / "reports" / "sample" / "run.json"
OVERVIEW = "scenarios"
"""The block that has a row for each scenario."""
_VERDICTS = "results-full-length"
"""The earlier table with a verdict for each scenario, which the overview shows until there is a run."""
_WORDS = {"PASS": "reproduced", "FAIL": "not reproduced"}
_PREFIX = "results-"


def make_blocks(published: Published) -> dict[str, list[str]]:
    """Return the lines of each block, by its name: the overview, and each table that an earlier version published on these pages."""
    names = sorted(path.stem for path in (EVIDENCE / "earlier").glob(f"{_PREFIX}*.json") if path.stem != _VERDICTS)
    earlier = {name: table for name in names if (table := published.earlier(name))}
    return {
        OVERVIEW: list(_make_overview(published)),
        PICTURE: [_make_picture(published)],
        **{name: list(_make_earlier(table)) for name, table in earlier.items()},
    }


def _make_picture(published: Published) -> str:
    stored = published.run(read_record(_SAMPLE).id)
    outcome = describe_outcome(stored.record, stored.verdict).removesuffix(".")
    return f"![The report of a run: {outcome[:1].lower()}{outcome[1:]}](docs/report.png)"


def _make_overview(published: Published) -> Iterator[str]:
    """Yield a row for each scenario: what happens, and what the newest published run of its own queue has shown."""
    newest: dict[str, StoredRun] = {}
    for stored in published.runs():
        scenario = stored.record.scenario
        if scenario.variant is None and not any(change.startswith("queue") for change in scenario.changes):
            newest[scenario.name] = stored
    before = published.earlier(_VERDICTS)
    verdicts = {row.name: row.cells["verdict"] for row in before.rows} if before else {}
    footnotes = Footnotes()
    rows = []
    for name in find_scenarios():
        if name in newest:
            stored = newest[name]
            document = stored.document
            shown = f"{describe_outcome(stored.record, stored.verdict)} *{name_verdict(stored.record, stored.verdict)}*"
            busy = " Measured on a busy machine." if document.busy else ""
            why = "; ".join(published.find_reasons(document))
            source = f"{link_run(document)}: `{document.command}`.{busy}{f' *Stale*: {why}.' if why else ''}"
            shown = f"{escape_markdown(shown)} ({footnotes.refer_to(source)}{', *stale*' if why else ''})"
        else:
            shown = f"earlier: {_WORDS.get(verdicts[name], verdicts[name])}" if name in verdicts else "not measured"
        rows.append(f"| [`{name}`](../scenarios/{name}.toml) | {escape_markdown(read_scenario(name).summary)} | {shown} |")
    yield from footnotes.add_to([*format_heading(["scenario", "what happens", "what was found"]), *rows])
    yield from ("", f"*earlier*: stale, {OF_EARLIER_VERSIONS}; [the figures of each run]({LINK}/earlier/{_VERDICTS}.json).")


def _make_earlier(table: EarlierTable) -> Iterator[str]:
    titles = list(dict.fromkeys(title for row in table.rows for title in row.cells))
    yield from (f"*Stale: {OF_EARLIER_VERSIONS}.*", "")
    yield from format_heading([table.heading, *titles])
    for row in table.rows:
        yield f"| {' | '.join([row.name, *(row.cells.get(title, '') for title in titles)])} |"


def main() -> None:
    """Write them."""
    try:
        write_blocks([*PAGES, README], make_blocks(Collection()))
    except BadInputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
