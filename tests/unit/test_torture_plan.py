"""What `stallbench torture` plans for a queue."""

from __future__ import annotations

import pytest

from stallbench.torture.torture import plan_torture


@pytest.mark.parametrize(("overrides", "engine"), [([], "postgres"), (["database.engine=mariadb"], "mariadb")])
def test_a_plan_names_the_engine_that_its_runs_use(overrides: list[str], engine: str) -> None:
    assert plan_torture("laravel", seed=1, overrides=overrides, points=(), action=None).engine == engine
