"""The section ``[[require]]``: what the queue must survive, by names that stand for parts of the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import Field, model_validator

from stallbench.base.section import Section, issue
from stallbench.base.validation_issue import show_value
from stallbench.suggestion import did_you_mean

Judge = Literal["reproduced", "survives"]
"""What a run is asked: whether it shows what the scenario expects, or whether the queue survives."""
Required = Literal["survives", "unaffected", "recovers", "safe"]
Part = Literal["lost", "repeated", "stranded", "workers", "recovery", "effect"]

PARTS: Mapping[Required, tuple[Part, ...]] = {
    "survives": ("lost", "repeated", "stranded", "workers", "recovery"),
    "unaffected": ("effect",),
    "recovers": ("recovery",),
    "safe": ("lost", "repeated", "stranded"),
}
"""The parts of the outcome that each name requires."""
SUBJECTS: Mapping[Part, str] = {
    "lost": "no job is lost",
    "repeated": "no job is repeated without a reason that the promise allows",
    "stranded": "no job is stranded beyond the declared rescue",
    "workers": "no worker is gone for good",
    "recovery": "back to normal within the phase that follows",
    "effect": "jobs are done as quickly as before, whatever goes wrong",
}
"""What is required of each part, in the order in which a report shows them."""
ABORTING: tuple[Required, ...] = tuple(name for name, parts in PARTS.items() if {"recovery", "effect"} & set(parts))
"""Those with a part that can be decided during a run: what was lost or repeated is known only at its end."""


class Requirement(Section):
    """What must be true of the outcome, whatever the queue is."""

    outcome: Required = Field(
        examples=["survives"],
        description="safe: nothing lost, repeated or stranded; recovers: back to normal within the phase that follows a fault; "
        "survives: both, and no worker gone for good; unaffected: jobs are done as quickly as before, whatever goes wrong",
    )
    abort: bool = Field(default=False, description="whether the run ends as soon as it cannot meet this any more")

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, content: object) -> object:
        if isinstance(content, str):
            return {"outcome": require_name(content)}
        if not isinstance(content, dict | Requirement):
            raise issue(f' is {show_value(content)}; expected a table, like {{ outcome = "survives" }}, or only the name')
        return content


def require_name(name: str) -> str:
    """Return ``name``; raises the error of a validator if no requirement has it."""
    names = get_args(Required)
    if name not in names:
        raise issue(f" is {show_value(name)}; expected one of {', '.join(names)}{did_you_mean(name, names)}")
    return name
