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


@pytest.mark.parametrize("engine", ["postgres", "mariadb", "mysql", "sqlite"])
@pytest.mark.parametrize(
    "code", ["40001", "P0100", "08001", "1213", "SQLITE_BUSY", "ECONNRESET", "ShopIsClosedError", "*errors.errorString"]
)
def test_an_error_that_another_process_reports_keeps_its_code_and_its_message(engine: str, code: str) -> None:
    driver = driver_of(engine)
    error = driver.make_error(code, "the shop is closed")
    assert isinstance(error, driver.errors)
    assert driver.code(error) == code
    assert "the shop is closed" in driver.describe(error)


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
