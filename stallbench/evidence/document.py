"""The files of ``evidence/``: what is published of a run, of a study, and of what earlier versions of the bench measured.

A document has what outcome and verdict follow from, so that both are computed again by the present rules (`stallbench.evidence.stored_run`). It is at
most `MOST_BYTES` long, and names no path, host or user of the machine that measured it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stallbench.base.duration import DURATION_SCHEMA, ON_RECORD
from stallbench.base.storage.format import require_format
from stallbench.errors import BadInputError
from stallbench.run.record import RunRecord

FORMAT: Literal[1] = 1
MOST_BYTES = 40_000
"""Of a file: it is kept in the repository, and read by people."""
FOLDERS = {"run": "runs", "study": "studies", "earlier": "earlier"}
"""Where files are, by their kind."""
_ADVICE = "publish the run or the study again: stallbench publish RUN"
_BRIEF = ("processes", "injections")
"""The parts of a run's record that are written without what has its default."""
Number = int | float | None


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MachineLoad(_Part):
    """How much the machine was used in a phase."""

    phase: str
    cpu_percent: float = Field(description="mean use of all processors, 0 to 100")
    own_percent: float | None = Field(description="what the run's own processes and servers used of that; null if unknown")


class Seconds(_Part):
    """What effect, recovery and saturation are computed from: one value for each second of the run, in the same order."""

    t_s: tuple[int, ...] = Field(description="since the first phase began")
    phase: tuple[int | None, ...] = Field(description="its place in `phases`; null outside of all")
    completed: tuple[int, ...] = Field(description="jobs")
    latency_ms_p95: tuple[Number, ...]
    depth: tuple[Number, ...] = Field(description="jobs that were ready and not claimed; null if not sampled")


class RepeatedJobs(_Part):
    """Jobs that were executed or completed more than once, of which these figures are the same."""

    executions: int
    completions: int
    excused: bool = Field(description="whether the queue's promise allows it")
    jobs: int
    examples: tuple[int, ...] = Field(description="ids of the first of them")


class FoundBefore(_Part):
    """What a check found that needs the records of the run, which are not published."""

    check: str
    subject: str
    result: Literal["pass", "fail", "unknown", "info"]
    reason: str
    severity: str


class RunDocument(_Part):
    """A run. Figures have six significant digits."""

    format: Literal[1] = FORMAT
    kind: Literal["run"] = "run"
    id: str = Field(description="name of the run's folder, which begins with its start in UTC")
    command: str = Field(description="repeats the run, its seed included")
    busy: tuple[str, ...] = Field(description="why the machine was too busy for times to be relied on; empty if it was not")
    load: tuple[MachineLoad, ...] = Field(description="of the machine, in each measured phase")
    conditions_hash: str = Field(description="of all that the scenario says of load, phases, queue and servers")
    record: RunRecord = Field(
        description="run.json: resolved scenario, queue with its hashes, versions, settings of servers, machine, phases, injections"
    )
    outcome: Mapping[str, Any] | None = Field(description="what happened to the queue, when this was published")
    verdict: Literal["pass", "fail", "unknown"] = Field(description="when this was published")
    reason: str = Field(description="of the verdict")
    phases: tuple[str, ...] = Field(description="the columns of `figures`; the last one is the whole run")
    figures: Mapping[str, Mapping[str, tuple[Number, ...]]] = Field(
        description="by measure and statistic: a value for each of `phases`; null if there is none"
    )
    executions: int = Field(description="of jobs, repeated ones included")
    events: Mapping[str, int] = Field(description="how many of each kind were recorded, also outside of the phases")
    seconds: Seconds
    tables: Mapping[str, tuple[Mapping[str, Any], ...]] = Field(description="rows of small tables, see docs/run-folder.md")
    repeated: tuple[RepeatedJobs, ...]
    findings: tuple[FoundBefore, ...]
    attribution: Mapping[str, Any] = Field(description="what held the horizon, and how claim time rose with old row versions")


class StudyDocument(_Part):
    """A study of several runs. The runs of a comparison have documents of their own, and what they show together is computed from these."""

    format: Literal[1] = FORMAT
    kind: Literal["study"] = "study"
    id: str
    command: str
    study: str = Field(description="kind of study, like comparison or limit")
    busy: tuple[str, ...] = Field(description="the runs during which the machine was too busy, and why")
    record: Mapping[str, Any] = Field(description="study.json, without what the documents of the runs have")
    conditions_hash: str
    first_run: RunRecord = Field(description="of the first completed run: scenario, queue, servers, machine, versions")
    verdict: Literal["pass", "fail", "unknown"] = Field(description="when this was published")
    intervals: Mapping[str, Mapping[str, tuple[Number, Number, Number]]] = Field(
        description="of a comparison: median, and the ends of its interval, by what is compared and variant"
    )


class EarlierRow(_Part):
    """A row of a table that an earlier version of the bench published."""

    name: str
    cells: Mapping[str, str] = Field(description="by the heading of the column, as text")
    source: str = Field(default="", description="when it was measured, and by which command, where that is known of the row")


class EarlierTable(_Part):
    """A table that an earlier version of the bench published, of which neither the resolved scenario nor the machine was kept. It is always stale."""

    format: Literal[1] = FORMAT
    kind: Literal["earlier"] = "earlier"
    table: str = Field(description="the markers of the table on its page")
    heading: str = Field(default="", description="of the first column, whose cells are the names of the rows")
    rows: tuple[EarlierRow, ...]
    run_columns: tuple[str, ...] = Field(default=(), description="the columns of `runs`")
    runs: tuple[tuple[str, ...], ...] = Field(default=(), description="what each run behind the rows showed, as text")


Document = Annotated[RunDocument | StudyDocument | EarlierTable, Field(discriminator="kind")]
_ANY: TypeAdapter[RunDocument | StudyDocument | EarlierTable] = TypeAdapter(Document)


def write_document(document: RunDocument | StudyDocument | EarlierTable) -> str:
    """Return the text of the file: a line for each key, and for each item of the longest lists."""
    content = document.model_dump(mode="json")
    record = (
        document.record
        if isinstance(document, RunDocument)
        else document.first_run
        if isinstance(document, StudyDocument)
        else None
    )
    if record is not None:  # there may be hundreds of processes, and few of their keys say anything
        brief = record.model_dump(mode="json", include=set(_BRIEF), exclude_defaults=True)
        content["record" if isinstance(document, RunDocument) else "first_run"] |= {key: brief.get(key, []) for key in _BRIEF}
    lines = [f"{_compact(key)}: {_spread(value)}" for key, value in content.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _spread(value: object) -> str:
    """Return JSON; each item of a list or object of several lists or objects is on a line of its own, so that differences can be read."""
    if isinstance(value, dict) and any(isinstance(each, dict | list) for each in value.values()):
        return "{\n " + ",\n ".join(f"{_compact(key)}:{_compact(each)}" for key, each in value.items()) + "\n}"
    if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        return "[\n " + ",\n ".join(map(_compact, value)) + "\n]"
    return _compact(value)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_document(path: Path) -> RunDocument | StudyDocument | EarlierTable:
    """Return the document in a file; raises `BadInputError` if it cannot be read, is damaged, or has another format."""
    try:
        text = path.read_text()
        require_format(json.loads(text), FORMAT, str(path), _ADVICE)
        return _ANY.validate_json(text, by_name=True, by_alias=False, context={ON_RECORD: True})
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(map(str, issue["loc"]))
        raise BadInputError(f"{path}: not evidence: {key}: {issue['msg']}; {_ADVICE}") from None
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{path}: not evidence: {error}; {_ADVICE}") from None


def make_evidence_schema() -> dict[str, Any]:
    """Return the JSON Schema of the files, made from these models."""
    schema = _with_durations_as_numbers(_ANY.json_schema(by_alias=False))
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema, "title": "Evidence of stallbench"}


def _with_durations_as_numbers(schema: Any) -> Any:
    """Return a schema for a record, where a duration is a number of seconds."""
    if isinstance(schema, dict):
        if schema.get("pattern") == DURATION_SCHEMA["pattern"]:
            return {key: value for key, value in schema.items() if key != "pattern"} | {"type": "number"}
        return {key: _with_durations_as_numbers(value) for key, value in schema.items()}
    return list(map(_with_durations_as_numbers, schema)) if isinstance(schema, list) else schema
