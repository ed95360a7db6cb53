"""Plans a matrix: one scenario on several versions of servers, as a comparison whose variants are the versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from stallbench.base.validation_issue import show_value
from stallbench.engines import ENGINES, engines_with
from stallbench.errors import BadInputError
from stallbench.queues import find_queue, find_queues
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from stallbench.scenario.toml import ScenarioError
from stallbench.studies.comparison.plan import Plan, interleave
from stallbench.verdicts.baseline.compared_metric import choose_subjects

_ENGINES = [name for name in ENGINES if name in engines_with("version")]
"""Those of which several versions are in use."""
_OF_THE_VERSION = ("database.engine", "database.version", "database.packaged")
"""Keys of a scenario that a matrix sets for each version."""
_PART = re.compile(r"(?P<engine>[a-z]+):(?P<first>\d{1,4}(?:\.\d{1,4})?)(?:\.\.(?P<last>\d{1,4}(?:\.\d{1,4})?))?")


@dataclass(frozen=True, slots=True, order=True)
class ServerVersion:
    """A version of a server, like ``postgres:14`` or ``mariadb:10.11``."""

    engine: str
    numbers: tuple[int, ...]

    @classmethod
    def read(cls, engine: str, version: str) -> Self:
        """Return the version that a text like ``10.11`` names."""
        return cls(engine, tuple(int(number) for number in version.split(".")))

    @property
    def version(self) -> str:
        """As `stallbench.engines.database.Database` has it."""
        return ".".join(map(str, self.numbers))

    @property
    def title(self) -> str:
        """As a sentence has it, like ``PostgreSQL 14``."""
        return f"{ENGINES[self.engine].title} {self.version}"

    def __str__(self) -> str:
        return f"{self.engine}:{self.version}"


def read_version(name: str) -> ServerVersion:
    """Return the version that has this name, as `str` returns it."""
    engine, _, version = name.partition(":")
    return ServerVersion.read(engine, version)


def make_matrix_plan(
    name_or_path: str, *, versions: str, variant: str | None, rounds: int, seed: int | None, overrides: Sequence[str]
) -> Plan:
    """Plan the comparison of a scenario, or of one of its variants, on ``versions``: ``postgres:14..18,mariadb:10.11``.

    The first version is the reference. Raises `BadInputError` with what is available, or `ScenarioError`.
    """
    for override in overrides:
        if override.partition("=")[0].strip() in _OF_THE_VERSION:
            raise BadInputError(f"--set {override}: --versions decides it; leave it out")
    chosen_versions = parse_versions(versions)
    # A phase that ends when the queue has fallen behind would be shorter on a slower version, and contain fewer late jobs.
    unrestricted = read_scenario(name_or_path, variant=variant, overrides=overrides)
    equal = [f"phases.{phase.name}.until=duration" for phase in unrestricted.phases if phase.until == "fallen_behind"]
    base = read_scenario(name_or_path, variant=variant, overrides=[*equal, *overrides])
    _require_engines(base.queue.kind, versions, [version.engine for version in chosen_versions])
    packaged = {version for version in chosen_versions if version.engine in engines_with("packaged")}
    is_packaged = all(version.version in ENGINES[version.engine].list_packaged_versions() for version in packaged)

    def read(version: ServerVersion) -> Scenario:
        own = [f'database.engine="{version.engine}"', f'database.version="{version.version}"']
        if is_packaged and version in packaged:
            own.append("database.packaged=true")
        try:
            return read_scenario(name_or_path, variant=variant, overrides=[*equal, *overrides, *own])
        except ScenarioError as error:  # without the version it was read: what is wrong is that both do not fit
            raise ScenarioError([_name_version(issue, version) for issue in error.issues]) from None

    chosen = {str(version): read(version) for version in chosen_versions}
    seed = base.seed if seed is None else seed
    return Plan(
        scenario=base,
        chosen=chosen,
        rounds=rounds,
        seed=seed,
        subjects=choose_subjects([base, *chosen.values()]),
        runs=tuple(interleave(list(chosen), rounds, seed)),
        versions=versions,
    )


def _name_version(issue: str, version: ServerVersion) -> str:
    """Return an issue of the scenario on ``version`` in which no option is named that the user has not given."""
    for given_by_matrix in ("--set: ", "--set database.engine "):
        key = given_by_matrix.removeprefix("--set: ").removeprefix("--set ")
        issue = issue.replace(f": {given_by_matrix}", f": --versions {version}: {key}")
    return issue


def _require_engines(queue: str, versions: str, engines: Sequence[str]) -> None:
    """Raise `BadInputError` with the queues that run on all ``engines`` if ``queue`` does not."""
    named = list(dict.fromkeys(engines))
    own = find_queue(queue).engines
    if not (missing := [engine for engine in named if engine not in own]):
        return
    fit = [kind for kind, other in find_queues().items() if set(named) <= set(other.engines)]
    remedy = (
        f"queues that run on {' and '.join(named)}: {', '.join(fit)}; choose one with --set queue.kind={fit[0]}"
        if fit
        else f"no queue runs on {' and '.join(named)}"
    )
    raise BadInputError(
        f"--versions {show_value(versions)}: queue.kind is {show_value(queue)}, which runs on {', '.join(sorted(own))}, "
        f"not on {' and '.join(missing)}; {remedy}"
    )


def parse_versions(text: str) -> list[ServerVersion]:
    """Return the versions that ``text`` names, in its order, a range as all available versions in it; raises `BadInputError`."""
    found: list[ServerVersion] = []
    for part in (part.strip() for part in text.split(",")):
        match = _PART.fullmatch(part)
        if match is None or match["engine"] not in _ENGINES:
            raise BadInputError(
                f"--versions {show_value(text)}: {show_value(part)} is not ENGINE:VERSION or ENGINE:FIRST..LAST; "
                f"expected versions like postgres:14..18,mariadb:10.11; the engines are {', '.join(_ENGINES)}"
            )
        found += _find_versions(text, part, match)
    if repeated := [version for version in dict.fromkeys(found) if found.count(version) > 1]:
        raise BadInputError(f"--versions {show_value(text)}: {repeated[0]} is named twice")
    if len(found) < 2:
        raise BadInputError(
            f"--versions {show_value(text)}: names only one version; a matrix needs two or more{_describe_available()}"
        )
    return found


def _find_versions(text: str, part: str, match: re.Match[str]) -> list[ServerVersion]:
    available = list(list_available(match["engine"]))
    first = ServerVersion.read(match["engine"], match["first"])
    last = ServerVersion.read(match["engine"], match["last"]) if match["last"] else first
    if last < first:
        raise BadInputError(f"--versions {show_value(text)}: {part} ends before it begins; expected the older version first")
    if match["last"] is None:
        # mysql:9 is any 9, as in a scenario.
        chosen = [first] if any(one.numbers[: len(first.numbers)] == first.numbers for one in available) else []
    else:
        chosen = [one for one in available if first <= one <= last] if {first, last} <= set(available) else []
    if not chosen:
        raise BadInputError(f"--versions {show_value(text)}: {part} is not available here{_describe_available()}")
    return chosen


def list_available(engine: str, *, installs: bool = True) -> Iterator[ServerVersion]:
    """Yield the versions of an engine that can be started on this machine, the oldest first.

    ``installs``: whether a program is installed if there is none, to see its version.
    """
    yield from sorted(ServerVersion.read(engine, version) for version in ENGINES[engine].list_versions(installs=installs))


def _describe_available() -> str:
    names = [str(version) for engine in _ENGINES for version in list_available(engine, installs=False)]
    return f"; available: {', '.join(names) or 'none'}; docs/versions.md says how to use others"
