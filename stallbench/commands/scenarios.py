"""Lists and shows scenarios."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from stallbench.commands.options import (
    ScenarioArgument,
    SetOption,
    VariantOption,
)


def list_() -> None:
    """List the scenarios and their variants.

    Example:
        stallbench list
    """
    from stallbench.scenario_file import find_scenarios, read_scenario, read_variants

    console = Console(highlight=False, soft_wrap=True)
    for name, path in find_scenarios().items():
        console.print(f"[bold]{name}[/bold]  {escape(read_scenario(str(path), variant=None).summary)}")
        for variant, summary in read_variants(path).items():
            console.print(f"    --variant {variant}  [dim]{escape(summary or '')}[/dim]")


def show(scenario: ScenarioArgument, variant: VariantOption = None, set_: SetOption = None) -> None:
    """Show a scenario as it would run: with its variant, its changes and every default filled in.

    Examples:
        stallbench show longtx

        stallbench show longtx --variant skip_locked --set producers.rate=1000
    """
    from stallbench.scenario_file import read_scenario

    chosen = read_scenario(scenario, variant=variant, overrides=set_ or [])
    unknown = {"producers": {"rate"}} if chosen.producers.wants_rate else {}
    print(chosen.model_dump_json(indent=2, exclude=unknown))
