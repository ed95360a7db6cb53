"""Who holds purge back on the primary? The sessions with the oldest read views.

A read view on a replica holds back only the replica's own purge: MySQL's replication has no feedback.
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.collectors.holders import MOST_RECORDED, WORTH_RECORDING_S
from stallbench.engines.innodb.views import read_open_transactions
from stallbench.records.samples import Sample

_COLLECTOR = "collector:"


class InnoDBHorizonCollector(ServerCollector):
    """Records the holders that have held the horizon for a while, and always the oldest one."""

    name = "innodb_horizon"

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield a set of samples for each holder, by rank, and the horizon's age; raises `NotMeasuredError` if the oldest one may be unknown."""
        found = [each for each in read_open_transactions(connection) if not each.user.startswith(_COLLECTOR)]
        for each in found:
            if each.view_unknown_because:
                raise NotMeasuredError(f"{server.name}: the read view of session {each.thread_id}: {each.view_unknown_because}")
        holding = [(each.view_age_xids, each) for each in found if each.view_age_xids is not None]
        holding.sort(key=lambda item: (-item[0], -item[1].age_s))
        for rank, (age_xids, holder) in enumerate(holding[:MOST_RECORDED]):
            if rank == 0 or holder.age_s >= WORTH_RECORDING_S:
                yield from samples_of(
                    server.name,
                    f"holder:backend:{holder.thread_id}",
                    {
                        "rank": rank,
                        "kind": "backend",
                        "pid": holder.thread_id,
                        "application": holder.user,
                        "state": "idle in transaction" if holder.state == "sleep" else holder.state,
                        "age_s": holder.age_s,
                        "age_xids": age_xids,
                        "via": "",
                        "catalog_only": 0,
                    },
                )
        yield from samples_of(
            server.name,
            "server",
            {
                "holders": len(holding),
                "horizon_age_xids": holding[0][0] if holding else 0,
                "horizon_age_s": max((holder.age_s for _, holder in holding), default=0.0),
            },
        )
