"""Every engine that a scenario may name has a driver, traits and a starter."""

from __future__ import annotations

import typing

import pytest
from pydantic import SecretStr

from stallbench.engines import ENGINES, Engine, driver_of, loaded_errors
from stallbench.queues import find_queues
from stallbench.records.endpoint import Endpoint
from stallbench.servers.find_starters import find_starters

NAMES = typing.get_args(Engine)


def test_every_engine_has_traits_and_a_starter() -> None:
    assert set(ENGINES) == set(NAMES) == set(find_starters())


@pytest.mark.parametrize("engine", NAMES)
def test_every_engine_has_a_driver_whose_errors_are_known(engine: str) -> None:
    driver = driver_of(engine)
    assert driver.errors
    assert set(driver.errors) <= set(loaded_errors())


@pytest.mark.parametrize("code", ["SQLITE_BUSY", "SQLITE_FULL"])
def test_an_error_on_sqlite_that_another_process_reports_keeps_its_code(code: str) -> None:
    driver = driver_of("sqlite")
    error = driver.make_error(code, "database is locked")
    assert isinstance(error, driver.errors)
    assert driver.code(error) == code


@pytest.mark.parametrize("engine", NAMES)
def test_every_engine_has_a_queue(engine: str) -> None:
    assert [kind for kind, queue in find_queues().items() if engine in queue.engines]


@pytest.mark.parametrize("engine", NAMES)
def test_a_console_gets_the_password_in_the_environment_only(engine: str) -> None:
    endpoint = Endpoint(engine=engine, host="127.0.0.1", port=4711, database="stallbench", user="", password=SecretStr("s3cret"))
    command = driver_of(engine).console(endpoint)
    program = [word for word in command.split() if "=" not in word]
    assert "s3cret" not in " ".join(program)
    assert "4711" in command or engine == "sqlite"
