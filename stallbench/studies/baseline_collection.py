"""Makes a baseline from runs, comparisons, searches for a limit, soaks, and other baseline files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import stallbench
from stallbench.errors import BadInputError
from stallbench.pipeline.failures import NoTableError
from stallbench.regression.baseline_file import Baseline, BaselineMachine, BaselineMetric, BaselineVariant, read_baseline_file
from stallbench.regression.change import choose_compared
from stallbench.regression.comparability import (
    describe_differences,
    find_conditions,
    find_kind_obstacle,
    find_machine,
    find_primary,
)
from stallbench.regression.compared_metric import Subject, choose_subjects
from stallbench.run.folder import find_comparison_folder, find_limit_folder, find_run_folder, find_soak_folder
from stallbench.scenario.model import CONTROL
from stallbench.shell_command import format_shell_command
from stallbench.studies.comparison.record import ComparisonFolder
from stallbench.studies.limit.baseline import read_limit_baseline
from stallbench.studies.soak.baseline import read_soak_baseline
from stallbench.verdicts.check import RunTables


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A baseline of a single run, or one that was read from a file; and where it comes from."""

    name: str
    baseline: Baseline


def collect_baseline(names: Sequence[str], runs: Path) -> Baseline:
    """Return the baseline of ``names``: runs, comparisons, searches for a limit or soaks, by folder or by name below ``runs``, and baseline files.

    Raises `BadInputError` if one does not exist, was not completed, or differs from another in what must be the same.
    """
    sources = [source for name in names for source in _read_sources(name, runs)]
    first = sources[0].baseline
    for source in sources[1:]:
        _require_alike(source, sources[0])
    variants: dict[str, BaselineVariant] = {}
    for source in sources:
        for name, variant in source.baseline.variants.items():
            variants[name] = _merge(name, variants[name], variant, source.name) if name in variants else variant
    newest = max(sources, key=lambda source: max(run for each in source.baseline.variants.values() for run in each.runs))
    machines = [source.baseline.machine for source in sources]
    return first.model_copy(
        update={
            "bench": stallbench.__version__,
            "versions": newest.baseline.versions,
            "machine": BaselineMachine(
                cpus=first.machine.cpus,
                cpu_models=tuple(sorted({model for machine in machines for model in machine.cpu_models})),
                systems=tuple(sorted({system for machine in machines for system in machine.systems})),
            ),
            "variants": variants,
        }
    )


def _read_sources(name: str, runs: Path) -> Iterator[_Source]:
    if Path(name).is_file():
        yield _Source(name=name, baseline=read_baseline_file(Path(name)))
        return
    if (searched := find_limit_folder(name, runs)) is not None:
        yield _Source(name=name, baseline=read_limit_baseline(searched))
        return
    if (soaked := find_soak_folder(name, runs)) is not None:
        yield _Source(name=name, baseline=read_soak_baseline(soaked))
        return
    comparison = find_comparison_folder(name, runs)
    if comparison is None:
        yield _read_run(find_run_folder(name, runs).path)
        return
    folder = ComparisonFolder(comparison)
    record = folder.read()
    completed = [run for run in record.runs if run.status == "completed" and run.folder is not None]
    if not completed:
        raise BadInputError(f"{name}: no run of the comparison was completed")
    for run in completed:
        yield _read_run(folder.runs / (run.folder or ""), variant=run.variant, subjects=record.subjects)


def _read_run(path: Path, *, variant: str | None = None, subjects: Sequence[Subject] | None = None) -> _Source:
    """Return the baseline of one run. ``variant``: its name in a comparison; ``subjects``: what the comparison compares."""
    tables = RunTables(path)
    try:
        record = tables.record
        if record.status != "completed" or record.is_observation:
            what = "only a server was observed" if record.is_observation else f"its status is {record.status}; expected completed"
            raise BadInputError(f"{path}: the run cannot be a baseline: {what}")
        engine, version = find_primary(record)
        if not version:
            raise BadInputError(f"{path}: the run cannot be a baseline: the version of its server is not known")
        compared = choose_compared(subjects or choose_subjects([record.scenario]), record.scenario)
        values = {each: tables.metric_or_ratio(each.metric, each.phase, each.relative_to) for each in compared}
    except (NoTableError, FileNotFoundError) as error:
        raise BadInputError(f"{path}: the run cannot be a baseline: {error}; stallbench report makes its tables") from None
    library = record.queue.library
    known = BaselineVariant(
        conditions=find_conditions(record.scenario),
        engine=engine,
        server_version=version,
        library=f"{library.title} {library.version}" if library else None,
        runs=(record.id,),
        metrics={
            subject.key: BaselineMetric(better=subject.better, values=(_round(value),)) for subject, value in values.items()
        },
    )
    baseline = Baseline(
        bench=record.bench.version,
        versions=record.versions,
        scenario=record.scenario.name,
        machine=find_machine(record),
        variants={variant or record.scenario.variant or CONTROL: known},
    )
    return _Source(name=str(path), baseline=baseline)


def _round(value: float | None) -> float | None:
    """Return six significant digits, which is more than a run can measure and keeps the file readable."""
    return None if value is None else float(f"{value:.6g}")


def _require_alike(source: _Source, first: _Source) -> None:
    one, other = source.baseline, first.baseline
    if obstacle := find_kind_obstacle(one, other.kind):
        raise BadInputError(f"{source.name}: {obstacle.replace('this needs one', f'{first.name} is')}")
    if one.scenario != other.scenario:
        raise BadInputError(f"{source.name}: is of the scenario {one.scenario}, and {first.name} of {other.scenario}")
    if one.machine.cpus != other.machine.cpus:
        raise BadInputError(
            f"{source.name}: ran on {one.machine.cpus} CPUs, and {first.name} on {other.machine.cpus}; a baseline is of one kind of machine"
        )


def _merge(name: str, known: BaselineVariant, added: BaselineVariant, where: str) -> BaselineVariant:
    """Return the runs of both, sorted by name; a metric that one does not have is null there."""
    if differences := describe_differences(added.conditions, known.conditions):
        raise BadInputError(
            f"{where}: {name} differs from the runs before it: {differences}".replace("in the baseline", "before")
        )
    if (added.engine, added.server_version, added.library) != (known.engine, known.server_version, known.library):
        raise BadInputError(
            f"{where}: {name} ran on {added.engine} {added.server_version}{_of(added)}, the runs before it on "
            f"{known.engine} {known.server_version}{_of(known)}"
        )
    if repeated := sorted(set(added.runs) & set(known.runs)):
        raise BadInputError(f"{where}: the run {repeated[0]} is named twice")
    runs = (*known.runs, *added.runs)
    order = sorted(range(len(runs)), key=runs.__getitem__)
    metrics = {}
    for key in sorted(known.metrics.keys() | added.metrics.keys()):
        values: list[float | None] = []
        for part in (known, added):
            values += part.metrics[key].values if key in part.metrics else [None] * len(part.runs)
        better = (known.metrics.get(key) or added.metrics[key]).better
        metrics[key] = BaselineMetric(better=better, values=tuple(values[index] for index in order))
    return known.model_copy(update={"runs": tuple(runs[index] for index in order), "metrics": metrics})


def _of(variant: BaselineVariant) -> str:
    return f" with {variant.library}" if variant.library else ""


def find_baseline(name: str, runs: Path) -> Baseline:
    """Return the baseline of the run, comparison, search or soak that ``--against`` names. Raises as `collect_baseline` does."""
    if not name.strip():
        raise BadInputError("--against: the name is empty; expected a file, run, comparison, search or soak")
    if not Path(name).exists() and (Path(name).suffix == ".json" or not (runs / name).exists()):
        raise BadInputError(
            f"--against {name}: no such file, run, comparison, search or soak; "
            f"write a baseline with: {format_shell_command(['stallbench', 'baseline', 'RUN', '--output', name])}"
        )
    return collect_baseline([name], runs)
