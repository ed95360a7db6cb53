"""A pooler that is there for the whole run, and the faults that would lead clients past it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.scenario_text import SMALL, find_lines


@pytest.mark.parametrize("fault", ['{ kind = "pooler" }', '{ kind = "promote", on = "replica-1" }'])
def test_a_fault_that_leads_clients_past_the_pooler_of_the_run_is_reported(fault: str, tmp_path: Path) -> None:
    text = SMALL.replace('longrunners = [{ kind = "idle_writer", on = "primary" }]', f"faults = [{fault}]")
    (line,) = find_lines(tmp_path, text.replace("replicas = 1", 'replicas = 1\npooler = "transaction"'))
    assert line.startswith("phases[2].faults[0].kind is ")
    assert line.endswith(", which leads the clients past the pooler of the whole run; leave out one of the two")
