"""The mutants that cannot be told from the queue, each with the argument: written by who has looked at it."""

from __future__ import annotations

import tomllib
from pathlib import Path

FILE = Path(__file__).with_name("equivalent.toml")


def read_equivalent() -> dict[str, str]:
    """Return the argument for each mutant that is declared, by its id."""
    content = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {mutant: " ".join(each["because"].split()) for each in content.get("equivalent", ()) for mutant in each["mutants"]}
