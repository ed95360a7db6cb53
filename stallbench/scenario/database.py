"""The section ``[database]``: the servers of a run, and which keys fit which engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from pydantic import Field, ValidationInfo, field_validator

from stallbench.engines import ENGINES, Engine, EngineTraits
from stallbench.scenario.section import Section, SettingName, SettingValue, issue

_ENGINES_OF_KEY: Mapping[str, tuple[Engine, ...]] = {
    "version": ("postgres",),
    "replication_slot": ("postgres",),
    "hot_standby_feedback": ("postgres",),
    "synchronous": ("postgres", "mariadb"),
    "small_disk": ("postgres",),
}
"""The keys that only some engines have."""

ValueT = TypeVar("ValueT")


class Database(Section):
    """The servers that the queue runs on."""

    engine: Engine = "postgres"
    version: int | None = Field(default=None, ge=15, le=99, description="major version; default: the newest that is installed")
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
    small_disk: Literal["wal", "tables"] | None = Field(
        default=None, description="what the primary stores on a separate small disk, for the fault full_disk"
    )
    small_disk_mb: int = Field(default=128, ge=16, le=4096, description="size of that disk")
    settings: dict[SettingName, SettingValue] = Field(default_factory=dict, description="server settings of all servers")
    replica_settings: dict[SettingName, SettingValue] = Field(
        default_factory=dict, description="server settings of the replicas only"
    )

    @field_validator("replicas")
    @classmethod
    def _require_engine_with_replicas(cls, replicas: int, info: ValidationInfo) -> int:
        traits = _traits(info)
        if replicas and traits and not traits.has_replicas:
            raise issue(f" is {replicas}, but {traits.title} has no replicas; expected 0")
        return replicas

    @field_validator(*_ENGINES_OF_KEY)
    @classmethod
    def _require_engine_with_key(cls, value: ValueT, info: ValidationInfo) -> ValueT:
        traits, engines = _traits(info), _ENGINES_OF_KEY[str(info.field_name)]
        if value and traits and info.data["engine"] not in engines:
            titles = " and ".join(ENGINES[engine].title for engine in engines)
            raise issue(f" is for {titles}, but the engine is {traits.title}; leave it out")
        return value

    @field_validator("settings", "replica_settings")
    @classmethod
    def _require_engine_with_settings(cls, settings: ValueT, info: ValidationInfo) -> ValueT:
        traits = _traits(info)
        if settings and traits and not traits.has_settings:
            raise issue(f" is given, but {traits.title} has no settings that a scenario can change; leave it out")
        return settings

    @field_validator("replication_slot", "hot_standby_feedback", "synchronous", "replica_settings")
    @classmethod
    def _require_replicas(cls, value: ValueT, info: ValidationInfo) -> ValueT:
        if value and info.data.get("replicas") == 0:
            raise issue(" is given, but database.replicas is 0; it needs at least 1")
        return value

    @field_validator("small_disk")
    @classmethod
    def _require_no_replicas(cls, small_disk: ValueT, info: ValidationInfo) -> ValueT:
        if small_disk and info.data.get("replicas"):
            raise issue(f" is given, but database.replicas is {info.data['replicas']}; it needs 0")
        return small_disk


def _traits(info: ValidationInfo) -> EngineTraits | None:
    """Return what is known of the chosen engine; none if there is no such engine, which is an issue of its own."""
    return ENGINES.get(info.data["engine"]) if "engine" in info.data else None
