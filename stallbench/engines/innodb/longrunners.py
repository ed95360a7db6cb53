"""What MariaDB and MySQL report about a longrunner: the evidence that it keeps old row versions, and that it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from stallbench.engines.innodb.driver import DRIVER
from stallbench.engines.innodb.views import read_open_transactions
from stallbench.records.endpoint import Endpoint
from stallbench.records.injections import Evidence


def find_longrunner(servers: Mapping[str, Endpoint], on: str, name: str, evidence: Mapping[str, Any]) -> Evidence | None:
    """Return its open transaction, see `Engine.find_longrunner`. One without a read view keeps no deleted rows."""
    with closing(DRIVER.connect(servers[on], "verify")) as connection:
        for transaction in read_open_transactions(connection):
            if transaction.thread_id == evidence.get("pid"):
                has_view = transaction.view_age_xids is not None
                return {
                    "source": on,
                    "pid": transaction.thread_id,
                    "state": transaction.state,
                    "age_s": transaction.age_s,
                    "age_xids": transaction.view_age_xids,
                    "has_read_view": has_view,
                    "holds_primary": has_view and on == "primary",
                }
    return None
