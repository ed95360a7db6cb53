"""Makes the documents of a run or a study from their folders, and writes them.

What is written is verified: outcome and verdict, computed again from the document, must be those that the folder shows.
"""

from __future__ import annotations

import getpass
import json
import math
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stallbench.base.storage.atomic_file import replace_file
from stallbench.errors import BadInputError
from stallbench.evidence.document import (
    FOLDERS,
    MOST_BYTES,
    FoundBefore,
    MachineLoad,
    Number,
    RepeatedJobs,
    RunDocument,
    Seconds,
    StudyDocument,
    write_document,
)
from stallbench.evidence.staleness import hash_conditions
from stallbench.evidence.stored_run import STORED_TABLES, StoredRun
from stallbench.measures import MEASURES, WHOLE_RUN
from stallbench.pipeline.failures import NoTableError
from stallbench.run.folder import find_run_folder, find_study_folder
from stallbench.run.record import BenchRecord, RunRecord
from stallbench.scenario.command import format_run_command
from stallbench.studies.kind import read_kind
from stallbench.studies.study import StudyRecord
from stallbench.verdicts import Verdict, find_checks
from stallbench.verdicts.baseline.comparability import find_conditions, shorten_kind
from stallbench.verdicts.check import RunTables
from stallbench.verdicts.host import describe_busy_host, read_own_share
from stallbench.verdicts.verdict_file import RecordedVerdict, read_verdict

OTHERS_PERCENT = 25.0
"""From this use of all processors by other programs on, they may have delayed what was measured."""
_ROLES = ("producer", "worker", "scheduler")
"""Of the processes that are published: the outcome counts those that exited."""
_EXAMPLES = 20
_OF_RUNS = ("values", "reason", "verdict", "verdict_name", "unsafe", "undecided")
"""What the record of a comparison has of its runs, and their own documents have, too."""
_PATH = re.compile(r"(?<![\w./*-])/(?:[\w.+@-]+/)+(?=[\w.+@-])")
"""The folders of an absolute path."""
_FEWEST_LETTERS = 4
"""A shorter name of a host or user may be a word."""


def publish(name: str, runs: Path, to: Path, *, even_if_busy: bool = False) -> list[Path]:
    """Write the documents of a run or study, and of the runs of a comparison, below ``to``; returns the files.

    Raises `BadInputError` if there is no such run or study, if it was not completed, if the machine was busy during it (unless ``even_if_busy``, which
    the documents say), if a document would be longer than `MOST_BYTES`, or if outcome and verdict do not follow from it.
    """
    study = find_study_folder(name, runs)
    documents = list(_make_documents_of_study(study)) if study else [make_run_document(find_run_folder(name, runs).path)]
    if not even_if_busy and (busy := [f"{each.id}: {why}" for each in documents for why in each.busy]):
        raise BadInputError(
            "\n".join([*busy, "measure it again while the machine has time to spare, or publish it all the same by --busy-host"])
        )
    texts = {to / FOLDERS[each.kind] / f"{each.id}.json": write_document(each) for each in documents}
    for path, text in texts.items():
        _require_publishable(path, text)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    return list(texts)


def make_run_document(folder: Path) -> RunDocument:
    """Return the document of the run in ``folder``. Raises `BadInputError` as `publish` does."""
    tables = RunTables(folder)
    try:
        record = tables.record
        if record.is_observation or record.status != "completed":
            found = (
                "only a server was observed" if record.is_observation else f"its status is {record.status}; expected completed"
            )
            raise BadInputError(f"{folder.name}: cannot be published: {found}")
        verdict = read_verdict(folder)
        document = _make_run_document(tables, verdict)
    except (NoTableError, FileNotFoundError) as error:
        raise BadInputError(
            f"{folder.name}: cannot be published: {error}; make its tables by: stallbench report {folder.name}"
        ) from None
    _require_same_outcome(document, tables, verdict)
    return document


def _make_run_document(tables: RunTables, verdict: RecordedVerdict) -> RunDocument:
    record = tables.record
    load = tuple(_read_load(tables))
    content = json.loads((tables.folder / "verdict.json").read_text())
    phases = (*(phase.name for phase in record.started_phases), WHOLE_RUN)
    return RunDocument(
        id=record.id,
        command=format_run_command(record.scenario)
        + ("" if any(each.startswith("seed=") for each in record.scenario.changes) else f" --set seed={record.seed}"),
        busy=tuple(_describe_busy(tables, load)),
        load=load,
        conditions_hash=hash_conditions(find_conditions(record.scenario)),
        record=_without_machine(record),
        outcome=_clean(content["outcome"]),
        verdict=verdict.verdict,
        reason=_clean(verdict.reason),
        phases=phases,
        figures=_read_figures(tables, phases),
        executions=tables.count_behind("order_diff", "max", None),
        events={name: count for name, measure in MEASURES.items() if measure.is_counted and (count := tables.count_events(name))},
        seconds=_read_seconds(tables, phases),
        tables={name: tuple(_read_rows(tables, name)) for name in STORED_TABLES},
        repeated=tuple(_read_repeated(tables)),
        findings=tuple(_read_findings(content["findings"])),
        attribution=_clean(content["attribution"]),
    )


def _make_documents_of_study(folder: Path) -> Iterator[RunDocument | StudyDocument]:
    """Yield the document of a study, and those of the runs of a comparison."""
    from stallbench.studies.comparison.record import ComparisonRecord

    conclusion = read_kind(folder).conclude(folder)
    record: StudyRecord = conclusion.record
    if record.status != "completed":
        raise BadInputError(f"{folder.name}: cannot be published: its status is {record.status}; expected completed")
    completed = [run for run in record.runs if run.status == "completed" and run.folder]
    if not completed:
        raise BadInputError(f"{folder.name}: cannot be published: none of its runs was completed")
    paths = [conclusion.folder.runs / (run.folder or "") for run in completed]
    documents = [make_run_document(path) for path in paths]
    is_comparison = isinstance(record, ComparisonRecord)
    content = {"kind": record.kind, **record.model_dump(mode="json", exclude_defaults=True, exclude={"results"})}
    content["bench"] |= {"pid": 0, "process_started_s": 0}
    if is_comparison:
        content["runs"] = [{key: value for key, value in run.items() if key not in _OF_RUNS} for run in content["runs"]]
    first = documents[0].record
    yield StudyDocument(
        id=record.id,
        command=_clean(format_study_command(record)),
        study=record.kind,
        busy=tuple(f"{each.id}: {why}" for each in documents for why in each.busy),
        record=_clean(content),
        conditions_hash=documents[0].conditions_hash,
        first_run=first,
        verdict=record.verdict,
        intervals=_find_intervals(record) if is_comparison else {},
    )
    if is_comparison:
        yield from documents


def format_study_command(record: StudyRecord) -> str:
    """Return the command that repeats a study."""
    from stallbench.studies.comparison.record import ComparisonRecord
    from stallbench.studies.comparison.report import format_command

    if isinstance(record, ComparisonRecord):
        return format_command(record)
    found = getattr(record, "command", None) or getattr(getattr(record, "plan", None), "command", None)
    return str(found) if found else f"stallbench {record.kind}"


def _find_intervals(record: Any) -> dict[str, dict[str, tuple[Number, Number, Number]]]:
    from stallbench.studies.comparison.results import find_results

    return {
        each.subject.key: {
            name: (_round(standing.spread.median, 4), _round(standing.spread.low, 4), _round(standing.spread.high, 4))
            for name, standing in each.standings.items()
            if standing.spread
        }
        for each in find_results(record).compared
    }


def _read_load(tables: RunTables) -> Iterator[MachineLoad]:
    for phase in tables.record.measured_phases:
        percent = tables.metric("cpu_percent", "mean", phase.name)
        if percent is not None:
            own = read_own_share(tables, phase.name)
            own_percent = None if own is None else round(100 * own, 1)
            yield MachineLoad(phase=phase.name, cpu_percent=round(percent, 1), own_percent=own_percent)


def _describe_busy(tables: RunTables, load: Iterable[MachineLoad]) -> Iterator[str]:
    if sentence := describe_busy_host(tables):
        yield sentence
    for each in load:
        others = each.cpu_percent - (each.own_percent or 0)
        if each.own_percent is not None and others >= OTHERS_PERCENT:
            yield f"Other programs used {others:.0f} % of the processors in {each.phase}."


def _without_machine(record: RunRecord) -> RunRecord:
    """Return the record without what tells something of the machine's users, or names this one process of it."""
    scenario, queue = record.scenario, record.queue
    kind = shorten_kind(queue.kind)
    return RunRecord.model_validate(
        _clean(
            record.model_copy(
                update={
                    "bench": BenchRecord(
                        version=record.bench.version, measurement=record.bench.measurement, pid=0, process_started_s=0
                    ),
                    "scenario": scenario.model_copy(update={"queue": scenario.queue.model_copy(update={"kind": kind})}),
                    "queue": queue.model_copy(update={"kind": kind}),
                    "host": record.host.model_copy(update={"boot_id": ""}),
                    "servers": tuple(
                        server.model_copy(
                            update={"port": None, "proxy_port": None, "settings": _choose_settings(server.settings)}
                        )
                        for server in record.servers
                    ),
                    "processes": tuple(
                        process.model_copy(update={"pid": 0, "host": None, "metrics_port": None})
                        for process in record.processes
                        if process.role in _ROLES
                    ),
                }
            ).model_dump(mode="json")
        ),
        by_name=True,
        by_alias=False,
        context={"on_record": True},
    )


def _choose_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a server that name no path and no port."""
    return {name: value for name, value in settings.items() if "/" not in value.replace("Etc/UTC", "") and name != "port"}


def _clean(content: Any) -> Any:
    """Return JSON in which the last part of each absolute path is left."""
    if isinstance(content, str):
        return _PATH.sub("", content)
    if isinstance(content, Mapping):
        return {key: _clean(value) for key, value in content.items()}
    return [_clean(each) for each in content] if isinstance(content, list | tuple) else content


def _read_figures(tables: RunTables, phases: tuple[str, ...]) -> dict[str, dict[str, tuple[Number, ...]]]:
    table = tables["phases"]
    found: dict[str, dict[str, dict[str, Number]]] = {}
    for phase, measure, statistic, value in zip(
        *(table[each] for each in ("phase", "measure", "statistic", "value")), strict=True
    ):
        found.setdefault(measure, {}).setdefault(statistic, {})[phase] = _round(value)
    return {
        measure: {statistic: tuple(values.get(phase) for phase in phases) for statistic, values in statistics.items()}
        for measure, statistics in found.items()
    }


def _read_seconds(tables: RunTables, phases: tuple[str, ...]) -> Seconds:
    windows = tables["windows"].sort_values("t_s")
    depth = windows["depth"] if "depth" in windows else [None] * len(windows)
    return Seconds(
        t_s=tuple(map(int, windows["t_s"])),
        phase=tuple(phases.index(each) if isinstance(each, str) else None for each in windows["phase"]),
        completed=tuple(map(int, windows["completed"].fillna(0))),
        latency_ms_p95=tuple(_round(each, 4) for each in windows["latency_ms_p95"]),
        depth=tuple(map(_round, depth)),
    )


def _read_rows(tables: RunTables, name: str) -> Iterator[dict[str, Any]]:
    columns: dict[str, Any] = json.loads(tables[name].to_json(orient="split", double_precision=6))
    for row in columns["data"]:
        content = dict(zip(columns["columns"], row, strict=True))
        if isinstance(ids := content.get("examples"), list):
            content["examples"] = ids[:_EXAMPLES]
        yield _clean(content)


def _read_repeated(tables: RunTables) -> Iterator[RepeatedJobs]:
    groups: dict[tuple[int, int, bool], list[int]] = {}
    for batch in tables.batches("duplicates", ["job_id", "executions", "completions", "excused"]):
        for row in batch.to_pylist():
            groups.setdefault((row["executions"], row["completions"], bool(row["excused"])), []).append(row["job_id"])
    for (executions, completions, excused), jobs in sorted(groups.items()):
        yield RepeatedJobs(
            executions=executions,
            completions=completions,
            excused=excused,
            jobs=len(jobs),
            examples=tuple(sorted(jobs)[:_EXAMPLES]),
        )


def _read_findings(findings: Iterable[Mapping[str, Any]]) -> Iterator[FoundBefore]:
    kept = {name for name, check in find_checks().items() if not check.judges_figures}
    for each in findings:
        if each["check"] in kept:
            shown = {key: each[key] for key in ("check", "subject", "result", "reason", "severity")}
            yield FoundBefore(**_clean(shown))


def _round(value: Any, digits: int = 6) -> Number:
    """Return a number with so many significant digits; none for what is not a number."""
    if value is None or math.isnan(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _require_same_outcome(document: RunDocument, tables: RunTables, verdict: RecordedVerdict) -> None:
    again: Verdict = StoredRun(document).verdict
    if again.verdict != verdict.verdict or again.reason != verdict.reason:
        raise BadInputError(
            f"{document.id}: cannot be published: its verdict, computed again from its figures, is {again.verdict} ({again.reason}), and that of "
            f"its folder {verdict.verdict} ({verdict.reason}); judge it by this version first: stallbench report {document.id}"
        )
    of_folder = tables.outcome.as_json()
    found = again.outcome.as_json() if again.outcome else {}
    if differing := [key for key in of_folder if not _are_alike(of_folder[key], found.get(key))]:
        raise BadInputError(
            f"{document.id}: cannot be published: {differing[0]} of its outcome, computed again from its figures, is {found.get(differing[0])}, "
            f"and in its folder {of_folder[differing[0]]}"
        )


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two values in JSON differ only in digits that are not published."""
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-4)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_are_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_are_alike, one, other))
    return bool(one == other)


def _require_publishable(path: Path, text: str) -> None:
    size = len(text.encode())
    if size > MOST_BYTES:
        raise BadInputError(f"{path.name}: would have {size:,} bytes, and at most {MOST_BYTES:,} are published")
    for what, name in (("the host", socket.gethostname()), ("a user", getpass.getuser())):
        if len(name) >= _FEWEST_LETTERS and name not in ("localhost", "root") and re.search(rf"\b{re.escape(name)}\b", text):
            raise BadInputError(
                f"{path.name}: would name {what} of this machine, {name}; it is in a sentence of the run's record"
            )
