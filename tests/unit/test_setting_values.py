"""Values of settings that are written in different ways and mean the same."""

from __future__ import annotations

import pytest

from stallbench.engines.innodb.setting_values import normalize_setting as normalize_innodb
from stallbench.engines.postgres.setting_values import normalize_setting as normalize_postgres


@pytest.mark.parametrize(
    ("first", "second", "unit"),
    [
        ("4MB", "4096kB", "kB"),
        ("16MB", "2048", "8kB"),
        ("30s", "30000", "ms"),
        ("1min", "60s", "s"),
        ("0.2", "0.20", None),
        ("on", "true", None),
        ("Replica", "replica", None),
        ("-1", "-1", "ms"),
    ],
)
def test_postgresql_s_values_are_the_same_in_any_unit(first: str, second: str, unit: str | None) -> None:
    assert normalize_postgres(first, unit) == normalize_postgres(second, unit)


@pytest.mark.parametrize(
    ("first", "second", "unit"), [("4MB", "4", "kB"), ("30s", "30", "ms"), ("on", "off", None), ("a", "b", None)]
)
def test_other_values_differ(first: str, second: str, unit: str | None) -> None:
    assert normalize_postgres(first, unit) != normalize_postgres(second, unit)


@pytest.mark.parametrize(
    ("first", "second"),
    [("256M", 268435456), ("ON", 1), (True, "ON"), (False, "0"), ("READ-COMMITTED", "read-committed"), (0.5, "0.500")],
)
def test_innodb_s_values_are_the_same_with_a_suffix(first: object, second: object) -> None:
    assert normalize_innodb(first) == normalize_innodb(second)
    assert normalize_innodb("1K") != normalize_innodb("1M")
