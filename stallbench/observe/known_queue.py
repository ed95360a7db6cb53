"""Queue libraries whose tables `stallbench observe` recognises: one TOML file each in ``known_queues/``.

A table is recognised by its columns. Its name only makes it a candidate, because reading the columns of ten thousand tables would be a load.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stallbench.libraries import Library, find_library
from stallbench.queues import find_queue

_FOLDER = Path(__file__).parent / "known_queues"
_BESIDE = re.compile(r"\{schema\}\.(\w+)")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ready(_Part):
    """Which jobs a worker could claim now. In SQL, the table has the alias ``job``; ``{schema}`` is its schema."""

    where: str = Field(description="condition of these rows")
    since: str = Field(description="expression: since when the job is ready")


class Running(_Part):
    """Which jobs a worker has."""

    table: str = Field(default="", description="the table that has them, in the same schema; the queue's own if empty")
    where: str = Field(description="condition of these rows")
    since: str = Field(description="expression: when it was claimed")
    rescue_from: str = Field(default="", description="expression: from when the rescue interval counts; `since` if empty")
    rescue: str = Field(default="", description="expression: the rescue interval; that of the library's definition if empty")
    rescue_words: str = Field(
        default="", description="what a job that is overdue for its rescue is, a clause to follow '3 of 50 running jobs'"
    )


class Recorded(_Part):
    """What ``--record-profile`` can see of its jobs, besides `Ready` and `Running`. Expressions have the alias ``job``, too."""

    queue: dict[str, str] = Field(description="the bench's own queue that claims and completes like it, with its options")
    payload: str = Field(default="", description="column with a job's arguments, of which only the size is read")
    kind: str = Field(default="", description="column by which jobs differ; only the shares of its values are read")
    newest: str = Field(default="", description="indexed column that increases; completed jobs stay in the table beside others")
    started: str = Field(default="", description="expression: when the last execution began")
    finished: str = Field(default="", description="expression: when it was completed; null before")
    locks_jobs: bool = Field(default=False, description="whether a running job is a ready one with an advisory lock")
    has_session_per_worker: bool = Field(default=False, description="whether each job that is executed has a session of its own")


class OnInnoDB(_Part):
    """The same on MariaDB and MySQL, in their SQL."""

    ready: Ready
    running: Running | None = None
    recorded: Recorded | None = Field(default=None, description="none if its load cannot be recorded")


class KnownQueue(_Part):
    """One library."""

    title: str
    library: str = Field(
        default="", description="its folder in libraries/, which has the claim statement and the rescue interval"
    )
    queue: str = Field(default="", description="the bench's own queue that is the same algorithm")
    usual_table: str = Field(description="the name without its schema; a candidate's name contains it")
    columns: tuple[str, ...] = Field(min_length=3, description="columns that only this library's table has together")
    is_named_so: bool = Field(default=False, description="whether the columns are too common to recognise it by them alone")
    note: str = Field(default="", description="what the counts include")
    ready: Ready
    running: Running | None = None
    recorded: Recorded | None = Field(default=None, description="none if its load cannot be recorded")
    innodb: OnInnoDB | None = Field(default=None, description="on MariaDB and MySQL, if the library has them")

    @property
    def definition(self) -> Library | None:
        """The library under test, if the bench has it."""
        return find_library(self.library) if self.library else None

    @property
    def is_tested(self) -> bool:
        """Whether tests recognise the library's own tables; otherwise the definition follows its documentation only."""
        return bool(self.library or self.queue)

    @property
    def claim_pattern(self) -> re.Pattern[str] | None:
        """What finds its claim statement among `stallbench.engines.postgres.collectors.statements.plain_statement` texts; none if unknown."""
        pattern = self.definition.claim_pattern if self.definition else find_queue(self.queue).claim_pattern if self.queue else ""
        return re.compile(pattern, re.IGNORECASE) if pattern else None

    @property
    def tables_beside(self) -> tuple[str, ...]:
        """The other tables of its schema that its expressions read on PostgreSQL, without the schema."""
        expressions = [self.ready.since, self.ready.where]
        if self.running:
            expressions += [self.running.since, self.running.where, self.running.rescue_from]
        named = [name for each in expressions for name in _BESIDE.findall(each)]
        return tuple(dict.fromkeys([*named, *([self.running.table] if self.running and self.running.table else [])]))

    @property
    def rescue(self) -> str:
        """The rescue interval as PostgreSQL's SQL; empty if nothing rescues its jobs after a fixed time."""
        if self.running and self.running.rescue:
            return self.running.rescue
        return f"pg_catalog.make_interval(secs => {self._rescue_s:g})" if self._rescue_s else ""

    @property
    def rescue_on_innodb(self) -> str:
        """The same as MariaDB's and MySQL's SQL."""
        if self.innodb and self.innodb.running and self.innodb.running.rescue:
            return self.innodb.running.rescue
        return f"INTERVAL {self._rescue_s:.0f} SECOND" if self._rescue_s else ""

    @property
    def _rescue_s(self) -> float | None:
        return self.definition.rescue.after_s if self.definition and self.definition.rescue.by_default else None


@cache
def find_known_queues() -> dict[str, KnownQueue]:
    """Return every library by the name of its file."""
    return {path.stem: KnownQueue.model_validate(tomllib.loads(path.read_text())) for path in sorted(_FOLDER.glob("*.toml"))}
