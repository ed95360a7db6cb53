"""The baseline file: the figures of earlier runs, searches for a limit or soaks of a scenario, and what must be the same in those that are compared.

It is small and in a stable order, so that it can be committed. It has no path, no name of a host, and no time but those in the names of the runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stallbench.base.storage.format import require_format
from stallbench.errors import BadInputError
from stallbench.measure_definition import Better

FORMAT: Literal[1] = 1
Kind = Literal["run", "limit", "soak"]
"""What the figures are of: runs, also those of a comparison or a matrix; searches for a limit; or soaks."""
_LARGEST_BYTES = 10 * 1024**2
"""A file that is larger than this is none: it is not read."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BaselineMachine(_Part):
    """The kind of machine of all runs of the file."""

    cpus: int = Field(description="number of logical processors; with another number, absolute figures are not comparable")
    cpu_models: tuple[str, ...]
    systems: tuple[str, ...] = Field(description="operating systems")


class BaselineMetric(_Part):
    """One metric in all runs of a variant."""

    better: Better
    values: tuple[float | None, ...] = Field(description="one for each run, in their order; null if it was not measured")

    @property
    def known(self) -> tuple[float, ...]:
        """The values of the runs that have one."""
        return tuple(value for value in self.values if value is not None)


class BaselineVariant(_Part):
    """The runs of one variant; or the searches for a limit with the horizon free, or held; or the soaks."""

    conditions: Mapping[str, str | float | bool | None] = Field(
        description="load, phases, queue and servers of the scenario, by key path, where they are not the default"
    )
    engine: str
    server_version: str = Field(description="of the primary")
    library: str | None = Field(default=None, description="title and version of the published library under test")
    runs: tuple[str, ...] = Field(min_length=1, description="the names of their folders, or of those of searches or soaks")
    metrics: Mapping[str, BaselineMetric] = Field(description="by the key of the metric, its phase and what it is relative to")

    @model_validator(mode="after")
    def _require_a_value_for_each_run(self) -> BaselineVariant:
        for key, metric in self.metrics.items():
            if len(metric.values) != len(self.runs):
                raise ValueError(f"{key} has {len(metric.values)} values for {len(self.runs)} runs")
        return self


class Baseline(_Part):
    """The whole file."""

    format: Literal[1] = FORMAT
    kind: Kind = Field(default="run", description="what the figures are of")
    bench: str = Field(description="version of the bench that wrote the file")
    versions: Mapping[str, str] = Field(description="of Python and the libraries whose behaviour can change a result")
    scenario: str
    machine: BaselineMachine
    variants: Mapping[str, BaselineVariant] = Field(min_length=1, description="by name; control is the scenario without one")


def write_baseline(baseline: Baseline) -> str:
    """Return the text of the file: sorted keys, one value a line, a line end after the last."""
    return json.dumps(baseline.model_dump(mode="json"), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_baseline_file(path: Path) -> Baseline:
    """Return the content of ``path``; raises `BadInputError` if it cannot be read, is damaged, or has another format."""
    try:
        size = path.stat().st_size
        text = path.read_text() if size <= _LARGEST_BYTES else ""
    except OSError as error:
        raise BadInputError(f"{path}: the baseline cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise _make_error(str(path), str(error)) from None
    if size > _LARGEST_BYTES:
        raise _make_error(str(path), f"it has {size:,} bytes")
    return parse_baseline(text, str(path))


def parse_baseline(text: str, where: str) -> Baseline:
    """Return the baseline in ``text``; raises `BadInputError`, which names ``where``, as `read_baseline_file` does."""
    try:
        content = json.loads(text)
        require_format(content, FORMAT, where, "write the baseline again: stallbench baseline RUN --output FILE")
        return Baseline.model_validate(content)
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in issue["loc"])
        raise _make_error(where, f"{key + ': ' if key else ''}{issue['msg']}") from None
    except (ValueError, RecursionError) as error:  # no JSON, or a number with thousands of digits
        raise _make_error(where, str(error) if text.strip() else "it is empty") from None


def _make_error(where: str, found: str) -> BadInputError:
    return BadInputError(f"{where}: not a baseline: {found}; write one with: stallbench baseline RUN --output FILE")
