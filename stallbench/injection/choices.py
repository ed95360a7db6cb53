"""The parts of a scenario that have a kind, above all longrunner, fault and maintenance task. Their other keys are options of that kind."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stallbench.base.duration import Duration
from stallbench.base.section import Name, issue
from stallbench.base.validation_issue import show_value


class Choice(BaseModel):
    """A table with a kind, keys that every kind has, and options."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    kind: str

    @property
    def options(self) -> dict[str, Any]:
        """The options, as the scenario gives them."""
        return dict(self.model_extra or {})

    @classmethod
    def list_keys(cls) -> list[str]:
        """Return the keys that every kind has, in order."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class LongrunnerChoice(Choice):
    """A process that holds the horizon during a phase."""

    kind: str = Field(examples=["idle_writer"])
    on: Name = Field(default="primary", description="a server")
    may_be_ended: bool = Field(default=False, description="whether the server may end it before the phase ends")


class FaultChoice(Choice):
    """What the bench makes go wrong in a phase."""

    kind: str = Field(examples=["latency"])
    on: Name = Field(default="primary", description="a server, a replication link, a process, or all processes of a role")
    after_s: Duration = Field(default=0.0, alias="after", ge=0, le=86_400, description="from the start of the phase")
    for_s: Duration | None = Field(
        default=None,
        alias="for",
        gt=0,
        le=86_400,
        description="how long it lasts from when it is active; default: to the end of the phase",
    )


class ChaosKind(Choice):
    """A kind of fault for combined faults: a table like that of a fault, without its times, or only its name."""

    kind: str = Field(examples=["latency"])
    on: Name | None = Field(default=None, description="as of a fault; default: where the kind usually acts")

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, content: object) -> object:
        if isinstance(content, str):
            return {"kind": content}
        if not isinstance(content, dict | ChaosKind):
            raise issue(f' is {show_value(content)}; expected a kind, like "latency", or a table, like {{ kind = "latency" }}')
        return content


class MaintenanceChoice(Choice):
    """A task that a process repeats on a server, during the whole load or one phase."""

    kind: str = Field(examples=["watchdog"])
    on: Name = Field(default="primary", description="a server")
    phase: Name | None = Field(default=None, description="the phase in which it runs; none: as long as there is load")
    after_s: Duration = Field(default=0.0, alias="after", ge=0, le=86_400, description="from the start of that phase")
