"""The clock offset of each engine that reports its time: on one host there is none."""

from __future__ import annotations

import pytest

from stallbench.engines import ENGINES, EngineName, driver_of
from stallbench.engines.clock_offset import measure_clock_offset
from stallbench.engines.driver import Driver
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("engine", ENGINES)
def test_on_one_host_clocks_agree_within_the_reported_error(engine: EngineName, empty_on: EmptyOn) -> None:
    offset = measure_clock_offset(empty_on(engine), "test")
    if type(driver_of(engine)).read_clock is Driver.read_clock:  # it reports no time
        assert offset is None
        return
    assert offset is not None
    a_microsecond_cut_off_ns = 2_000
    assert abs(offset.offset_ns) <= offset.error_ns + a_microsecond_cut_off_ns
