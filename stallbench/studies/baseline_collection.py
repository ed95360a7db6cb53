"""Makes a baseline from runs, comparisons, searches for a limit, soaks, and other baseline files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import stallbench
from stallbench.errors import BadInputError
from stallbench.run.folder import find_run_folder, find_study_folder
from stallbench.shell_command import format_shell_command
from stallbench.studies.kind import read_kind
from stallbench.studies.run_baseline import read_run_baseline
from stallbench.verdicts.baseline.baseline_file import (
    Baseline,
    BaselineMachine,
    BaselineMetric,
    BaselineVariant,
    read_baseline_file,
)
from stallbench.verdicts.baseline.comparability import (
    TITLES,
    describe_differences,
)


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
    if (study := find_study_folder(name, runs)) is not None:
        yield from (_Source(name=of, baseline=baseline) for of, baseline in read_kind(study).read_baselines(study))
        return
    path = find_run_folder(name, runs).path
    yield _Source(name=str(path), baseline=read_run_baseline(path))


def _require_alike(source: _Source, first: _Source) -> None:
    one, other = source.baseline, first.baseline
    if one.kind != other.kind:
        raise BadInputError(f"{source.name}: the baseline is of {TITLES[one.kind]}, and {first.name} is of {TITLES[other.kind]}")
    if one.scenario != other.scenario:
        raise BadInputError(f"{source.name}: is of the scenario {one.scenario}, and {first.name} of {other.scenario}")
    if one.machine.cpus != other.machine.cpus:
        raise BadInputError(
            f"{source.name}: ran on {one.machine.cpus} CPUs, and {first.name} on {other.machine.cpus}; a baseline is of one kind of machine"
        )


def _merge(name: str, known: BaselineVariant, added: BaselineVariant, where: str) -> BaselineVariant:
    """Return the runs of both, sorted by name; a metric that one does not have is null there."""
    if differences := describe_differences(added.conditions, known.conditions, "before"):
        raise BadInputError(f"{where}: {name} differs from the runs before it: {differences}")
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
