"""Every engine that a scenario may name has a driver, traits and a starter."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from stallbench import PROJECT
from stallbench.engines import DEFAULT_ENGINE, ENGINES, Engine, driver_of, loaded_errors
from stallbench.engines.error_codes import codes_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.engines.replication import Replication
from stallbench.engines.sessions import Sessions
from stallbench.engines.starter import Starter
from stallbench.queues import find_queues
from stallbench.records.endpoint import Endpoint

NAMES = list(ENGINES)


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


@pytest.mark.parametrize("engine", ENGINES.values(), ids=NAMES)
def test_every_engine_has_what_it_says_that_it_has(engine: Engine) -> None:
    assert issubclass(engine.starter(), Starter)
    assert (engine.adapter() is not None) == bool(engine.schemes), "who can be joined has an address"
    assert not engine.schemes or (PROJECT / "stallbench" / "observe" / engine.family / "family.py").exists()
    if engine.has_sessions:
        assert isinstance(engine.sessions(), Sessions)
    if engine.has_replicas:
        assert isinstance(engine.replication(), Replication)
    assert engine.too_many_connections <= codes_of(ErrorKind.CANNOT_CONNECT)
    assert engine.lock_waits_ended <= codes_of(ErrorKind.LOCK_TIMEOUT)


def test_one_engine_is_the_default() -> None:
    assert [name for name, engine in ENGINES.items() if engine.is_default] == [DEFAULT_ENGINE]


def test_no_code_means_two_things() -> None:
    kinds: dict[str, set[ErrorKind]] = {}
    for engine in ENGINES.values():
        for kind, codes in engine.error_codes.items():
            for code in codes:
                kinds.setdefault(code, set()).add(kind)
    assert not {code: found for code, found in kinds.items() if len(found) > 1}
