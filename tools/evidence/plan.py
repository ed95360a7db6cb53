"""``evidence/plan.toml``: what is published, in order of value, and which published result each of it is."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError
from stallbench.evidence.collection import EVIDENCE, Collection
from stallbench.evidence.document import RunDocument, StudyDocument
from stallbench.evidence.staleness import find_reasons
from stallbench.libraries import find_libraries
from stallbench.run.record import RunRecord
from stallbench.scenario.command import list_changes, list_variant
from stallbench.scenario.file import find_scenario, find_scenarios, read_mitigations, read_variants
from stallbench.scenario.model import CONTROL
from stallbench.shell_command import format_shell_command

PLAN = EVIDENCE / "plan.toml"
_OF_THE_RUN = ("seed=", "producers.rate=")
"""What a run may change beside the plan: its seed, and the rate that was measured as a share of the capacity."""
State = Literal["current", "stale", "missing"]


class Entry(BaseModel):
    """What one or several commands measure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    study: Literal["run", "compare", "matrix", "limit", "torture", "conform"] = Field(description="the command")
    tier: Literal[1, 2] = Field(description="1: of the pages that are read first")
    shown: str = Field(description="where, and as what")
    scenarios: Literal["all"] | tuple[str, ...] = ()
    queues: tuple[str, ...] = Field(default=(), description="of torture and conform: kinds of queues")
    variants: tuple[str, ...] = Field(
        default=(), description="of compare: none for those that it compares by itself. Of others: one run or study for each"
    )
    libraries: Literal["all"] | tuple[str, ...] = Field(
        default=(), description="of compare all together, else one after the other"
    )
    load: Literal["common", "own"] = "common"
    versions: str = ""
    changes: tuple[str, ...] = Field(default=(), description="as for --set")
    rounds: int = Field(default=3, ge=1, description="of a run: how many runs with different seeds")
    minutes: float = Field(gt=0, description="of one command, about")
    earlier: str | None = Field(
        default=None, description="the table of an earlier version that is shown until then; default: by the name of the scenario"
    )

    @model_validator(mode="after")
    def _require_a_subject(self) -> Self:
        if self.study in ("torture", "conform"):
            if not (self.queues or self.libraries):
                raise ValueError(f"{self.study} needs queues or libraries")
        elif not self.scenarios:
            raise ValueError(f"{self.study} needs scenarios")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One command of the plan."""

    entry: Entry
    subject: str
    """The scenario, or the kind of the queue."""
    variant: str | None = None
    library: str | None = None
    seed: int | None = None

    @property
    def words(self) -> list[str]:
        """The command, without the name of the program."""
        entry = self.entry
        if entry.study in ("torture", "conform"):
            return [entry.study, self.subject, *list_changes(entry.changes)]
        together = entry.study in ("compare", "matrix")
        libraries = entry.libraries if isinstance(entry.libraries, str) else ",".join(entry.libraries)
        return [
            entry.study,
            self.subject,
            *list_variant(self.variant),
            *(["--variants", ",".join(entry.variants)] if entry.study == "compare" and entry.variants else []),
            *(["--libraries", libraries] if entry.study == "compare" and libraries else []),
            *(["--load", entry.load] if entry.load != "common" else []),
            *(["--versions", entry.versions] if entry.versions else []),
            *list_changes(self.changes),
            *(["--repeat", str(entry.rounds)] if together else []),
            *(["--set", f"seed={self.seed}"] if self.seed is not None else []),
        ]

    @property
    def changes(self) -> tuple[str, ...]:
        """What the command changes in the scenario."""
        queue = (f'queue={{kind="{LIBRARY_PREFIX}{self.library}"}}',) if self.library else ()
        return (*queue, *self.entry.changes)

    @property
    def command(self) -> str:
        """The command, for a shell."""
        return format_shell_command(["stallbench", *self.words])

    def is_of_run(self, record: RunRecord) -> bool:
        """Whether a run is one of this measurement."""
        scenario = record.scenario
        if self.entry.study != "run" or (scenario.name, scenario.variant) != (self.subject, self.variant):
            return False
        if self.seed is not None and record.seed != self.seed:
            return False
        others = set(scenario.changes) - set(self.changes)
        return set(self.changes) <= set(scenario.changes) and all(
            each.startswith(_OF_THE_RUN) or (each.startswith("phases.") and ".duration=" in each) for each in others
        )

    def is_of_study(self, kind: str, record: Any) -> bool:
        """Whether a study is of this measurement. ``record``: its ``study.json``, or what is published of it."""
        match self.entry.study, kind:
            case ("compare" | "matrix", "comparison"):
                return self._is_of_comparison(record)
            case ("limit", "limit"):
                scenario = record["plan"]["scenario"]
                changes = tuple(scenario.get("changes", ()))
                return bool((scenario["name"], scenario.get("variant"), changes) == (self.subject, self.variant, self.changes))
            case ("torture", "torture") | ("conform", "conformance"):
                return bool(record["plan"]["kind"] == self.subject)
            case _:
                return False

    def _is_of_comparison(self, record: Any) -> bool:
        scenario = record["scenario"]
        changes = {each for each in scenario.get("changes", ()) if ".until=" not in each}
        if (scenario["name"], scenario.get("variant"), changes) != (self.subject, self.variant, set(self.entry.changes)):
            return False
        if (record.get("load", "common"), record.get("versions") or "") != (self.entry.load, self.entry.versions):
            return False
        names = {each["name"] for each in record["variants"]} | set(record.get("left_out", {}))
        return bool(record["rounds"] >= self.entry.rounds and names >= self._find_wanted())

    def _find_wanted(self) -> set[str]:
        """Return what a comparison has to include; of a matrix nothing, because its versions are compared as they are named."""
        if self.entry.study == "matrix":
            return set()
        libraries = {LIBRARY_PREFIX + each for each in _list_libraries(self.entry)}
        if self.entry.variants or libraries:
            return {*self.entry.variants, *libraries}
        path = find_scenario(self.subject)
        return {CONTROL, *(read_mitigations(path) or read_variants(path))}

    @property
    def earlier(self) -> str | None:
        """The name of the table of an earlier version that is shown as long as nothing is published; none if there is no such table."""
        if self.entry.study != "compare" and not (self.entry.study == "run" and self.library):
            return None
        kind = "libraries" if self.library or self.entry.libraries else "mitigations"
        return self.entry.earlier or "-".join(part for part in (kind, self.subject, self.variant) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Whether what the plan wants is published."""

    measurement: Measurement
    state: State
    published: str = ""
    """Its newest result; empty if there is none."""
    reasons: tuple[str, ...] = ()
    """Why it is stale."""
    busy: bool = False
    """Whether the machine was busy while it was measured."""


def read_plan(path: Path = PLAN) -> tuple[Entry, ...]:
    """Return the entries of the plan. Raises `BadInputError`, with the place, if it is not valid."""
    try:
        return tuple(map(Entry.model_validate, tomllib.loads(path.read_text()).get("measure", [])))
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise BadInputError(f"{path}: {error}") from None


def list_measurements(entries: Sequence[Entry]) -> list[Measurement]:
    """Return the commands of the plan, in order of value. What several entries want is measured once, for the first of them."""
    found: dict[str, Measurement] = {}
    for each in _expand(entries):
        found.setdefault(each.command, each)
    return list(found.values())


def _expand(entries: Sequence[Entry]) -> Iterator[Measurement]:
    for entry in entries:
        if entry.study in ("torture", "conform"):
            kinds = [*entry.queues, *(LIBRARY_PREFIX + each for each in _list_libraries(entry))]
            yield from (Measurement(entry=entry, subject=kind) for kind in kinds)
            continue
        for scenario in find_scenarios() if entry.scenarios == "all" else entry.scenarios:
            if entry.study == "compare":
                _require_variants(entry, scenario)
                yield Measurement(entry=entry, subject=scenario)
                continue
            seeds: Sequence[int | None] = range(1, entry.rounds + 1) if entry.study == "run" else [None]
            for seed in seeds:
                for variant in entry.variants or (None,):
                    for library in _list_libraries(entry) or (None,):
                        chosen = None if variant == CONTROL else variant
                        yield Measurement(entry=entry, subject=scenario, variant=chosen, library=library, seed=seed)


def _list_libraries(entry: Entry) -> Sequence[str]:
    return list(find_libraries()) if entry.libraries == "all" else entry.libraries


def _require_variants(entry: Entry, scenario: str) -> None:
    if unknown := set(entry.variants) - {CONTROL, *read_variants(find_scenario(scenario))}:
        raise BadInputError(f"{PLAN}: {scenario} has no variant {', '.join(sorted(unknown))}")


def find_standing(measurement: Measurement, published: Collection) -> Standing:
    """Return whether a measurement is published, and whether that is current; a current result is preferred, then the newest."""
    found = list(_find_published(measurement, published))
    if not found:
        table = published.earlier(measurement.earlier) if measurement.earlier else None
        of_library = find_libraries()[measurement.library].title_and_version if measurement.library else None
        if table and any(of_library in (None, row.name) for row in table.rows):
            reasons = find_reasons(table)
            return Standing(measurement=measurement, state="stale", published=table.table, reasons=reasons)
        return Standing(measurement=measurement, state="missing")
    by_reasons = [(published.find_reasons(each), each) for each in found]
    reasons, newest = next((each for each in reversed(by_reasons) if not each[0]), by_reasons[-1])
    state: State = "stale" if reasons else "current"
    return Standing(measurement=measurement, state=state, published=newest.id, reasons=reasons, busy=bool(newest.busy))


def _find_published(measurement: Measurement, published: Collection) -> Iterator[RunDocument | StudyDocument]:
    if measurement.entry.study == "run":
        yield from (run.document for run in published.runs() if measurement.is_of_run(run.document.record))
        return
    yield from (each for each in published.studies if measurement.is_of_study(each.study, each.record))
