"""``python -m tools.evidence``: ``status`` says what of the plan is current, stale or missing, and ``run`` measures the rest.

``schema`` writes the schema of the files again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

from stallbench.base.duration import format_duration, parse_duration_s
from stallbench.base.storage.atomic_file import replace_file
from stallbench.errors import StallbenchError
from stallbench.evidence.collection import EVIDENCE, Collection
from stallbench.evidence.document import make_evidence_schema
from stallbench.scenario.schema import write_schema
from tools.evidence.campaign import carry_out
from tools.evidence.plan import Standing, find_standing, list_measurements, read_plan

SCHEMA_FILE = EVIDENCE / "schema.json"
"""The JSON Schema of the files, as it is committed."""


def main() -> None:
    """Carry out one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m tools.evidence", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("status", help="list what is current, stale and missing")
    run = commands.add_parser("run", help="measure what is stale or missing, in order of value, and publish it")
    run.add_argument("--within", required=True, metavar="TIME", help="end after that time, like 150m")
    commands.add_parser("schema", help=f"write {SCHEMA_FILE.name} again, from the models")
    chosen = parser.parse_args()
    try:
        if chosen.command == "schema":
            replace_file(SCHEMA_FILE, write_schema(make_evidence_schema()))
        elif chosen.command == "status":
            print(*describe_status(), sep="\n")
        else:
            carry_out(_read_duration_s(chosen.within), lambda text: print(text, flush=True))
    except StallbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def _read_duration_s(text: str) -> float:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        sys.exit(f"--within {text}: {error}")


def describe_status() -> Iterator[str]:
    """Yield a line for each measurement of the plan, and the numbers of each tier."""
    published = Collection()
    standings = [find_standing(each, published) for each in list_measurements(read_plan())]
    for standing in standings:
        busy = ", measured on a busy machine" if standing.busy else ""
        why = f": {'; '.join(standing.reasons)}" if standing.reasons else ""
        of = f" [{standing.published}{busy}]" if standing.published else ""
        yield f"{standing.state:8} {standing.measurement.command}{of}{why}"
    for tier in (1, 2):
        yield f"tier {tier}: {_count([each for each in standings if each.measurement.entry.tier == tier])}"


def _count(standings: list[Standing]) -> str:
    counts = Counter(each.state for each in standings)
    todo_s = 60 * sum(each.measurement.entry.minutes for each in standings if each.state != "current")
    return f"{', '.join(f'{counts[state]} {state}' for state in ('current', 'stale', 'missing'))}; about {format_duration(todo_s)} to measure"


if __name__ == "__main__":
    main()
