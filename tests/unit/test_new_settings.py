"""A setting that the installed PostgreSQL does not know yet is reported before a server starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.base.section import SettingValue
from stallbench.engines.database import Database
from stallbench.engines.postgres import starter as postgres_starter
from stallbench.engines.postgres.starter import PostgresStarter
from stallbench.setup.components import PostgresPrograms

NEW = Database(replicas=1, replica_settings={"transaction_timeout": "10s"})


@pytest.mark.parametrize(
    ("version", "obstacle"),
    [
        ("15.18", "database.replica_settings.transaction_timeout needs PostgreSQL 17 or later; this is 15.18"),
        ("17.2", None),
        ("18.0", None),
    ],
)
def test_a_setting_that_is_too_new_is_reported(version: str, obstacle: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_starter, "find_postgres", lambda: PostgresPrograms(bin_dir=Path("/nowhere"), version=version))
    assert PostgresStarter.find_obstacle(NEW) == obstacle


def test_of_a_version_that_the_scenario_names_nothing_needs_to_be_installed() -> None:
    settings: dict[str, SettingValue] = {"transaction_timeout": "10s"}
    assert PostgresStarter.find_obstacle(Database(version="16", settings=settings)) == (
        "database.settings.transaction_timeout needs PostgreSQL 17 or later; this is 16"
    )
    assert PostgresStarter.find_obstacle(Database(version="17", settings=settings)) is None


def test_any_version_has_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_starter, "find_postgres", lambda: PostgresPrograms(bin_dir=Path("/nowhere"), version="15.18"))
    assert PostgresStarter.find_obstacle(Database(settings={"statement_timeout": "10s"})) is None
