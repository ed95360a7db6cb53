"""The section ``[database]``: the servers of a run, and which keys fit which engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeVar, get_args

from pydantic import Field, ValidationInfo, field_validator

from stallbench.base.section import Section, SettingName, SettingValue, issue
from stallbench.engines import DEFAULT_ENGINE, ENGINES, Engine, EngineName
from stallbench.engines.engine import DatabaseKey

PoolerMode = Literal["session", "transaction"]
"""For how long a client of a pooler keeps its server connection."""

ValueT = TypeVar("ValueT")


class Database(Section):
    """The servers that the queue runs on."""

    engine: EngineName = DEFAULT_ENGINE
    version: str | None = Field(
        default=None,
        examples=["18"],
        description='the version of the server, like "18" or "10.11"; default: the newest that is installed',
    )
    packaged: bool = Field(
        default=False,
        description="whether the bench uses its own package of this PostgreSQL version even if the machine has the version, "
        "so that servers of several versions are built in the same way",
    )
    port: int | None = Field(default=None, ge=1024, le=65535, description="port of the primary; default: a free one")
    replicas: int = Field(default=0, ge=0, le=3, description="number of replicas; they are called replica-1, replica-2, ...")
    replication_slot: bool = Field(default=False, description="whether the replicas stream through a physical slot")
    hot_standby_feedback: bool = Field(
        default=False, description="whether the replicas report their oldest snapshot to the primary"
    )
    synchronous: bool = Field(default=False, description="whether a commit waits until a replica has it")
    prepared_statements: bool = Field(
        default=True,
        description="whether clients use named prepared statements on PostgreSQL; a pooler in transaction mode breaks them",
    )
    pooler: PoolerMode | None = Field(
        default=None,
        description="a pgbouncer between the clients and the primary for the whole run; for how long a client keeps its server connection",
    )
    pooler_size: int = Field(default=20, ge=1, le=500, description="server connections that all clients of this pooler share")
    small_disk: Literal["wal", "tables"] | None = Field(
        default=None, description="what the primary stores on a separate small disk, for the fault full_disk"
    )
    small_disk_mb: int = Field(default=128, ge=16, le=4096, description="size of that disk")
    xids_left: int | None = Field(
        default=None,
        ge=1_000,
        le=30_000_000,
        description="how many transaction ids the primary can still assign before it refuses more, for the fault wraparound",
    )
    volatile_cache: bool = Field(
        default=False, description="whether the fault power_loss can drop what the primary has written but not synced"
    )
    settings: dict[SettingName, SettingValue] = Field(default_factory=dict, description="server settings of all servers")
    replica_settings: dict[SettingName, SettingValue] = Field(
        default_factory=dict, description="server settings of the replicas only"
    )

    @field_validator("version", mode="before")
    @classmethod
    def _read_number(cls, version: object) -> object:
        """Accept 18 and 10.11 as text, too: ``--set`` and older records have numbers."""
        return str(version) if isinstance(version, int | float) and not isinstance(version, bool) else version

    @field_validator("version")
    @classmethod
    def _require_version(cls, version: str | None, info: ValidationInfo) -> str | None:
        engine = _engine(info)
        if version is None or engine is None:
            return version
        if problem := engine.find_version_issue(version):
            raise issue(problem)
        return version

    @field_validator("packaged")
    @classmethod
    def _require_version_of_package(cls, packaged: bool, info: ValidationInfo) -> bool:
        if packaged and "version" in info.data and info.data["version"] is None:
            raise issue(" is true, but there is no database.version; give the version, like 17")
        return packaged

    @field_validator("replicas")
    @classmethod
    def _require_engine_with_replicas(cls, replicas: int, info: ValidationInfo) -> int:
        engine = _engine(info)
        if replicas and engine and not engine.has_replicas:
            raise issue(f" is {replicas}, but {engine.title} has no replicas; expected 0")
        return replicas

    @field_validator(*get_args(DatabaseKey))
    @classmethod
    def _require_engine_with_key(cls, value: ValueT, info: ValidationInfo) -> ValueT:
        engine, key = _engine(info), info.field_name
        if value and engine and key not in engine.database_keys:
            titles = " and ".join(each.title for each in ENGINES.values() if key in each.database_keys)
            raise issue(f" is for {titles}, but the engine is {engine.title}; leave it out")
        return value

    @field_validator("settings", "replica_settings")
    @classmethod
    def _require_engine_with_settings(cls, settings: ValueT, info: ValidationInfo) -> ValueT:
        engine = _engine(info)
        if settings and engine and not engine.has_settings:
            raise issue(f" is given, but {engine.title} has no settings that a scenario can change; leave it out")
        return settings

    @field_validator("replication_slot", "hot_standby_feedback", "synchronous", "replica_settings")
    @classmethod
    def _require_replicas(cls, value: ValueT, info: ValidationInfo) -> ValueT:
        if value and info.data.get("replicas") == 0:
            raise issue(" is given, but database.replicas is 0; it needs at least 1")
        return value

    @field_validator("small_disk", "xids_left", "volatile_cache")
    @classmethod
    def _require_no_replicas(cls, value: ValueT, info: ValidationInfo) -> ValueT:
        if value and info.data.get("replicas"):
            raise issue(f" is given, but database.replicas is {info.data['replicas']}; it needs 0")
        return value

    @field_validator("volatile_cache")
    @classmethod
    def _require_no_small_disk(cls, volatile_cache: bool, info: ValidationInfo) -> bool:
        if volatile_cache and info.data.get("small_disk"):
            raise issue(" is given, and so is database.small_disk; leave one of them out")
        return volatile_cache


def usual_engine(engines: Collection[str]) -> str:
    """Return the one of ``engines`` that is used if nobody chooses: the default of scenarios, or else one of which the bench has a server itself."""
    return min(engines, key=lambda name: (name != DEFAULT_ENGINE, ENGINES[name].belongs_to_user, name))


def _engine(info: ValidationInfo) -> Engine | None:
    """Return the chosen engine; none if there is no such engine, which is an issue of its own."""
    return ENGINES.get(info.data["engine"]) if "engine" in info.data else None
