"""The definition of a library, or of a user's own application: ``library.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from stallbench.engines import ENGINES, EngineName
from stallbench.errors import BadInputError
from stallbench.libraries.option import Option, find_name_issues
from stallbench.libraries.part import Part
from stallbench.libraries.settings import Setting, Settings, Value
from stallbench.libraries.statements import CompletedJobs, OtherJobs, Statements

PERIODIC = "periodic"
"""The option of libraries with periodic jobs: the period in seconds, 0 for none."""
VERSION = "version"
UPGRADE_TO = "upgrade_to"
"""Options of a library with a `Migration`: its version at the start of a run, and after the migration."""
Language = Literal["python", "javascript", "go", "java", "php", "ruby"]


class LibraryError(BadInputError):
    """A library does not exist, or its definition is invalid; the message says what was found and what is expected."""


class Completion(Part):
    """How the bench sees that a job is completed."""

    seen_by: Literal["hook"] = Field(description="hook: the worker process sees the confirmation, and records it")
    what: str = Field(description="the library's confirmation, to follow the words 'a completion is'")


class SearchInterval(Part):
    """A time between two searches that follows from an option."""

    option: str = Field(description="the option, in seconds")
    times: float = Field(default=1, gt=0, description="what its value is multiplied by")
    plus: float = Field(default=0, ge=0, description="how many seconds are added then")


class Rescue(Part):
    """What makes the job of a dead worker available to another worker."""

    by_default: bool = Field(description="whether it happens without set-up by the user")
    what: str = Field(description="what rescues the job, or what the user has to set up")
    after_s: float | None = Field(default=None, ge=0, description="after how long, by default; none if never, or at once")
    renews_claims: bool = Field(
        default=False, description="whether a worker renews the claim of a job that it executes: the time counts from then"
    )
    marks_failed: bool = Field(
        default=False, description="whether by default the job is then marked as failed, and not re-executed"
    )
    search_s: Annotated[float, Field(ge=0)] | SearchInterval = Field(
        default=0,
        description="how much later at most, because the library searches for such jobs: seconds between two searches",
    )


class Retention(Part):
    """What becomes of completed jobs."""

    kept: bool = Field(description="whether a completed job stays in a table, or moves to another one, by default")
    what: str = Field(description="for how long, what deletes it then, and where that is set")


class Migration(Part):
    """How a newer version of the library migrates its tables, from the version of the option `VERSION` to that of `UPGRADE_TO`.

    ``one_of`` of these options has the versions from the oldest to the newest.
    """

    what: str = Field(description="what migrates, and in how many transactions")


class Start(Part):
    """How the adapter starts a worker."""

    like: str = Field(description="what the library's documentation recommends for production")
    differs: str = Field(default="", description="in what the adapter differs from that; empty if in nothing")


class AdvisoryLocks(Part):
    """PostgreSQL's advisory locks that a session of a worker needs."""

    at_most: int = Field(ge=1, description="the maximum that it holds at once")
    for_each: str | None = Field(default=None, description="option whose value multiplies the maximum, like threads")


class Library(Part):
    """A published queue library, or an application that has no package."""

    name: str = Field(description="the folder's name")
    folder: Path
    title: str
    package: str = Field(default="", description="its name in the registry of its language")
    version: str = ""
    language: Language
    licence: str = ""
    home: str = Field(default="", description="address of its documentation")
    summary: str = Field(description="one sentence on how it claims a job")
    engines: tuple[str, ...] = Field(min_length=1, strict=False)
    not_on: dict[str, str] = Field(default={}, description="why it does not run on other engines, by engine")
    promise: Literal["at_least_once", "at_most_once"]
    ordered: bool
    tables: tuple[str, ...] = Field(min_length=1, strict=False)
    indexes: tuple[str, ...] = Field(default=(), strict=False)
    creates: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="what it creates beside `tables`, so that it is removed from a user's server, see `Queue.creates`",
    )
    claim_pattern: str = Field(description="regular expression that finds its claim statement, see `Queue.claim_pattern`")
    command: tuple[str, ...] = Field(
        min_length=1, strict=False, description="starts the adapter; a verb follows: install, produce, work, prune"
    )
    python_at_least: str | None = Field(
        default=None, description="oldest version of Python in which it runs, like 3.12; if none, the bench's is new enough"
    )
    orderly_exit_codes: tuple[int, ...] = Field(
        default=(0,), strict=False, description="of a worker that was asked to stop by SIGTERM; negative: a signal"
    )
    start: Start | None = Field(default=None, description="how a worker is started; none for an application")
    completion: Completion
    rescue: Rescue
    retention: Retention | None = Field(default=None, description="none if the definition does not say")
    migration: Migration | None = Field(default=None, description="none: the bench has one version of it")
    no_job_age: str = Field(default="", description="why its tables do not tell since when a ready job waits")
    no_migration: str = Field(default="", description="why there is no `migration`")
    sql: Statements
    options: dict[str, Option] = Field(default={})
    settings: Settings | None = Field(default=None, description="what is in force in each worker process")
    other_jobs: OtherJobs | None = Field(
        default=None,
        description="jobs of another queue in the same table",
    )
    no_other_jobs: str = Field(default="", description="why there is no `other_jobs`")
    completed_jobs: CompletedJobs | None = Field(default=None, description="jobs that were completed long ago, if it keeps them")
    advisory_locks: AdvisoryLocks | None = None
    second_queue: str = Field(
        default="",
        pattern=r"^[a-z_]*$",
        description="name of a second queue, which its workers serve if the option `second_queue` is true, or if it has no such option",
    )
    unique_jobs: str = Field(
        default="", description="by what the adapter lets the library refuse a second job with the same key; empty if it cannot"
    )
    periodic_jobs: str = Field(
        default="",
        description="what inserts a periodic job, and why only once for each period, if the option `periodic` is not 0; empty if it has none",
    )

    @property
    def title_and_version(self) -> str:
        """Its title, and its version if it has one."""
        return f"{self.title} {self.version}".rstrip()

    @property
    def source(self) -> str:
        """Its package, or its folder if it has no package."""
        what = f"{self.package} {self.version}" if self.package else str(self.folder)
        return f"{what} ({self.language})" + (f", {self.home}" if self.home else "")

    def describe_lack_of(self, engine: EngineName) -> str:
        """Return that it does not run on ``engine``, and why if the definition says so."""
        sentence = f"does not run on {ENGINES[engine].title}"
        return f"{sentence}: {self.not_on[engine]}" if engine in self.not_on else sentence

    def find_settings(self, options: Mapping[str, Any]) -> dict[str, Setting]:
        """Return what is in force in each worker process with ``options``, or with their defaults; empty if the definition does not say."""
        return self.settings.in_force(self._with_defaults(options)) if self.settings else {}

    def compute_settings(self, options: Mapping[str, Any]) -> dict[str, Value]:
        """Return the values of `find_settings`."""
        return {name: setting.compute(self._with_defaults(options)) for name, setting in self.find_settings(options).items()}

    def compute_search_s(self, options: Mapping[str, Any]) -> float:
        """Return `Rescue.search_s` with ``options``."""
        search = self.rescue.search_s
        if isinstance(search, SearchInterval):
            return float(self._with_defaults(options)[search.option]) * search.times + search.plus
        return search

    def find_upgrade(self, options: Mapping[str, Any]) -> tuple[str, str]:
        """Return the version at the start and the one after the migration, of a library with a `migration`, with ``options``."""
        given = self._with_defaults(options)
        return str(given[VERSION]), str(given[UPGRADE_TO])

    def at_the_start(self, options: Mapping[str, Any]) -> Library:
        """Return the library in the version with which a run with ``options`` starts."""
        return self.model_copy(update={"version": self.find_upgrade(options)[0]}) if self.migration else self

    def _with_defaults(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {name: option.default for name, option in self.options.items()} | dict(options)

    @model_validator(mode="after")
    def _require_engines_that_exist(self) -> Library:
        if both := set(self.not_on).intersection(self.engines):
            raise ValueError(f"not_on: {', '.join(sorted(both))} is one of engines; expected an engine on which it does not run")
        for key, engines in (("engines", self.engines), ("not_on", self.not_on)):
            if unknown := set(engines).difference(ENGINES):
                raise ValueError(f"{key}: there is no engine {', '.join(sorted(unknown))}; expected {', '.join(ENGINES)}")
        return self

    @model_validator(mode="after")
    def _require_that_completed_jobs_are_kept(self) -> Library:
        if self.completed_jobs and self.retention and not self.retention.kept:
            raise ValueError("completed_jobs: retention.kept is false; expected true, or no completed_jobs")
        return self

    @model_validator(mode="after")
    def _require_options_with_a_number(self) -> Library:
        search, numbers = self.rescue.search_s, [name for name, option in self.options.items() if option.is_number]
        named = {
            "rescue.search_s.option": search.option if isinstance(search, SearchInterval) else None,
            "advisory_locks.for_each": self.advisory_locks.for_each if self.advisory_locks else None,
        }
        for key, name in named.items():
            if name is not None and name not in numbers:
                raise ValueError(f'{key} is "{name}"; expected one with a number: {", ".join(numbers) or "there is none"}')
        return self

    @model_validator(mode="after")
    def _require_the_option_of_periodic_jobs(self) -> Library:
        option = self.options.get(PERIODIC)
        if bool(self.periodic_jobs) != (option is not None):
            raise ValueError(f"has only one of periodic_jobs and options.{PERIODIC}; expected both, or none")
        if option is not None and (option.default != 0 or not option.one_of):
            raise ValueError(
                f"options.{PERIODIC}: expected the default 0, for no periodic job, and one_of with the periods in seconds"
            )
        return self

    @model_validator(mode="after")
    def _require_the_options_of_the_migration(self) -> Library:
        for name in (VERSION, UPGRADE_TO) if self.migration else ():
            if name not in self.options or not self.options[name].one_of:
                raise ValueError(f"migration: needs the option {name}, with one_of; expected [options.{name}]")
        return self

    @model_validator(mode="after")
    def _require_options_of_settings(self) -> Library:
        if self.settings is not None:
            issues = list(self.settings.find_issues(self._with_defaults({})))
            if issues:
                raise ValueError("; ".join(issues))
        return self

    @model_validator(mode="after")
    def _require_statements_of_every_engine(self) -> Library:
        for statement in (self.sql.backlog, self.sql.snapshot):
            if isinstance(statement, dict) and set(statement) != set(self.engines):
                raise ValueError(f"sql: has statements of {', '.join(statement)}; the engines are {', '.join(self.engines)}")
        return self

    @field_validator("options")
    @classmethod
    def _require_names(cls, options: dict[str, Option]) -> dict[str, Option]:
        if issues := list(find_name_issues(options)):
            raise ValueError("; ".join(issues))
        return options

    @field_validator("claim_pattern")
    @classmethod
    def _require_a_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from None
        return pattern

    @field_validator("python_at_least")
    @classmethod
    def _require_a_version(cls, version: str | None) -> str | None:
        if version is not None and not re.fullmatch(r"3\.\d{1,3}", version):
            raise ValueError(f'is "{version}"; expected a version of Python 3 like "3.12"')
        return version


def read_library(path: Path) -> Library:
    """Read a ``library.toml``; raises `LibraryError` with a line for each issue."""
    try:
        content = tomllib.loads(path.read_text())
        return Library.model_validate({**content, "name": path.parent.name, "folder": path.parent})
    except OSError as error:
        raise LibraryError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LibraryError(f"{path}: not TOML: {error}") from None
    except ValidationError as error:
        issues = error.errors(include_input=False, include_url=False)
        lines = [
            ": ".join([str(path), *filter(None, [".".join(map(str, issue["loc"]))]), issue["msg"].removeprefix("Value error, ")])
            for issue in issues
        ]
        raise LibraryError("\n".join(lines)) from None
