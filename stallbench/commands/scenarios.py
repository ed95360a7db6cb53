"""The commands about scenario files: `stallbench list`, `show`, `validate` and `schema`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from stallbench.commands.options import ScenarioArgument, SetOption, VariantOption
from stallbench.console import VisibleConsole
from stallbench.visible_text import escape_in_json, make_visible, say

if TYPE_CHECKING:
    from pydantic import BaseModel

    from stallbench.scenario.model import Scenario

_HEADING_WIDTH = 9


def list_(
    words: Annotated[list[str] | None, typer.Argument(metavar="[WORD]...", help="Show what contains all of these words.")] = None,
) -> None:
    """List the scenarios by subject. With words: what contains all of them, and what each variant changes.

    Exit codes: 0 they are listed, 2 the file of one cannot be read, or nothing contains the words.

    For example:

        stallbench list
        stallbench list vacuum
        stallbench list longtx mitigat
    """
    from stallbench.scenario.listing import list_scenarios

    console = VisibleConsole(highlight=False, soft_wrap=True)
    for subject, scenarios in list_scenarios(words or ()).items():
        console.print(f"[bold]{escape(subject)}[/bold]")
        for each in scenarios:
            _print_wrapped(console, each.name, each.summary, indent=2)
            if words:
                for variant, summary in each.variants.items():
                    _print_wrapped(console, f"--variant {variant}", summary, indent=6)
            elif each.variants:
                _print_wrapped(console, "variants:", ", ".join(each.variants), indent=6)
    if not words:
        console.print()
        _print_wrapped(console, "stallbench run longtx", "the main scenario, in two minutes: begin here", indent=0)
        _print_wrapped(
            console, "stallbench list longtx", "what each variant of a scenario changes; `--variant NAME` runs it", indent=0
        )


def _print_wrapped(console: VisibleConsole, name: str, text: str, *, indent: int) -> None:
    """Print ``text`` behind ``name``, in as many lines as the terminal needs; in one line if it is no terminal, for `grep`."""
    whole = f"{' ' * indent}{name}  {text}"
    width = max(console.width, 40) if console.is_terminal else len(whole) + 1
    lines = textwrap.wrap(whole, width, subsequent_indent=" " * (indent + 4), break_on_hyphens=False)
    shown = Text("\n".join(lines))
    shown.stylize("bold cyan" if indent == 2 else "cyan", indent, indent + len(name))
    console.print(shown)


def print_description(scenario: Scenario, lines: Iterable[tuple[str, str]]) -> None:
    """Print what a scenario is, and ``lines`` of it, each with its heading, which is empty if it goes on with the one before.

    Wrapped, if this is a terminal.
    """
    console = VisibleConsole(highlight=False, soft_wrap=True)
    of_variant = f", variant {scenario.variant}" if scenario.variant else ""
    console.print(f"[bold]{escape(scenario.name + of_variant)}[/]: {escape(scenario.summary)}")
    for heading, line in lines:
        whole = f"{heading:<{_HEADING_WIDTH}}  {line}"
        width = max(console.width, 40) if console.is_terminal else len(whole) + 1
        wrapped = textwrap.wrap(whole, width, subsequent_indent=" " * (_HEADING_WIDTH + 4), break_on_hyphens=False)
        shown = Text("\n".join(wrapped))
        shown.stylize("bold cyan", 0, len(heading))
        console.print(shown)


def show(
    scenario: ScenarioArgument,
    variant: VariantOption = None,
    set_: SetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all of it as JSON, for programs: with all changes and all defaults.")
    ] = False,
) -> None:
    """Show a scenario as it would run: what happens, on what, for how long, what is asked, its variants, and how to run it.

    A queue in a Python file that the scenario names (kind = "FILE.py:CLASS") is loaded for its options, which executes that file: do so only with a
    scenario that you would run.

    Exit codes: 0 the scenario is valid, 2 it is not; one line for each issue says why.

    For example:

        stallbench show longtx
        stallbench show longtx --variant skip_locked --set producers.rate=1000
        stallbench show longtx --json
    """
    from stallbench.scenario.description import describe_scenario
    from stallbench.scenario.file import find_scenario, read_scenario, read_variants

    chosen = read_scenario(scenario, variant=variant, overrides=set_ or [])
    if not as_json:
        print_description(chosen, describe_scenario(chosen, read_variants(find_scenario(scenario))))
        return
    print(make_visible(json.dumps(_fill_in(chosen), indent=2, ensure_ascii=False), notation=escape_in_json))


def validate(
    scenarios: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Paths of scenario files, or names from `stallbench list`.")
    ],
) -> None:
    """Say what is wrong with scenario files, with all of their variants: a line for each issue. No server is started.

    A queue in a Python file that a scenario names is loaded, which executes that file.

    Exit codes: 0 all files are valid, 2 one is not.

    For example:

        stallbench validate bench/scenario.toml
        stallbench validate scenarios/*.toml
    """
    from stallbench.scenario.file import ScenarioError, read_scenario

    issues = []
    for each in scenarios:
        try:
            read_scenario(each)
        except ScenarioError as error:
            issues += error.issues
    if issues:
        raise ScenarioError(issues)
    say("valid" if len(scenarios) == 1 else f"{len(scenarios)} files are valid")


class SchemaOf(StrEnum):
    """What `stallbench schema` describes."""

    SCENARIO = "scenario"
    READING = "reading"


def schema(
    of: Annotated[
        SchemaOf, typer.Argument(help="scenario: a scenario's file; reading: a line of `stallbench observe --json`.")
    ] = SchemaOf.SCENARIO,
) -> None:
    """Print a JSON Schema: of scenario files, by which an editor completes and checks keys, or of what `observe --json` prints.

    Exit codes: 0 it is printed, 2 there is no such schema.

    For example:

        stallbench schema > scenario.schema.json
        stallbench schema reading > reading.schema.json
    """
    from stallbench.scenario.schema import make_schema, write_schema

    if of is SchemaOf.READING:
        from stallbench.observe.document import ReadingDocument

        print(write_schema(ReadingDocument.model_json_schema(mode="serialization")), end="")
        return
    print(write_schema(make_schema()), end="")


def _fill_in(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario with the default options of its queue, faults and maintenance. docs/add-a-longrunner.md lists those of longrunners."""
    from stallbench.injection.faults import find_faults
    from stallbench.injection.maintenance import find_maintenance_kinds
    from stallbench.queues import find_queue

    shown = scenario.model_dump(mode="json", exclude={"producers": {"rate"}} if scenario.producers.wants_rate else {})
    queue = find_queue(scenario.queue.kind)
    _fill_in_options(shown["queue"], queue.options_type, scenario.queue.options)
    for phase, shown_phase in zip(scenario.phases, shown["phases"], strict=True):
        for fault, shown_fault in zip(phase.faults, shown_phase["faults"], strict=True):
            _fill_in_options(shown_fault, find_faults()[fault.kind].options_type, fault.options)
    for task, shown_task in zip(scenario.maintenance, shown["maintenance"], strict=True):
        _fill_in_options(shown_task, find_maintenance_kinds()[task.kind].options_type, task.options)
    return shown


def _fill_in_options(shown: dict[str, Any], options_type: type[BaseModel], given: Mapping[str, Any]) -> None:
    for key in given:
        shown.pop(key)
    shown.update(options_type.model_validate(given).model_dump(mode="json"))
