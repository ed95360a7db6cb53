"""The clock offset of each engine that reports its time: on one host there is none."""

from __future__ import annotations

import typing

import pytest

from stallbench.engines import Engine
from stallbench.engines.clock_offset import measure_clock_offset
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

REPORTS_NO_TIME = ("aerospike", "beanstalkd", "sqlite")


@pytest.mark.parametrize("engine", typing.get_args(Engine))
def test_on_one_host_clocks_agree_within_the_reported_error(engine: Engine, empty_on: EmptyOn) -> None:
    offset = measure_clock_offset(empty_on(engine), "test")
    if engine in REPORTS_NO_TIME:
        assert offset is None
        return
    assert offset is not None
    a_microsecond_cut_off_ns = 2_000
    assert abs(offset.offset_ns) <= offset.error_ns + a_microsecond_cut_off_ns
