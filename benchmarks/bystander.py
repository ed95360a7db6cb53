"""``python -m benchmarks.bystander [ENGINE ..] [--for SECONDS]``: the processor time that a run's bystander takes, its own, the proxy's and the server's.

It is read from /proc, so it matters little what else the machine does. Of server and proxy: what they use beside the bystander, without what they use in as
much time without it.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.processor_time import take_snapshot
from stallbench.engines.database import Database
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.run.bystander.process import create_table, start_bystander
from stallbench.run.folder import RunFolder
from stallbench.scenario.file import read_scenario
from stallbench.servers.cluster import start_cluster

FOR_S = 60.0
SETTLE_S = 5.0
"""After the start, of which the processor time is shown by itself."""


def measure(engine: str, for_s: float) -> Mapping[str, float]:
    """Return the share of a core by who used it, and as ``start`` the seconds that the start of the process took."""
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with start_reaper(token, record=scratch / "run.json", scratch=scratch), tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path))
        for each in (folder.events, folder.logs):
            each.mkdir()
        processes = Supervisor(token, scratch=scratch)
        try:
            cluster = start_cluster(
                Database(engine=engine),  # type: ignore[arg-type]
                scratch=scratch,
                logs=folder.logs,
                processes=processes,
                progress=lambda _: None,
            )
            if refusal := create_table(cluster):
                raise RuntimeError(refusal)
            serving = {role: [each.record().pid for each in processes.of_role(role)] for role in ("server", "toxiproxy")}
            time.sleep(SETTLE_S)
            before = take_snapshot(serving)
            time.sleep(for_s)
            idle = before.until(take_snapshot(serving))
            process = start_bystander(read_scenario("longtx"), cluster, processes=processes, folder=folder)
            pids = {**serving, "bystander": [process.record().pid]}
            time.sleep(SETTLE_S)
            before = take_snapshot(pids)
            time.sleep(for_s)
            used = before.until(take_snapshot(pids))
            started_s = sum(before.used_s["bystander"].values())
        finally:
            processes.stop_all()
    return {"start": started_s, **{who: (used_s - idle.get(who, 0.0)) / for_s for who, used_s in used.items()}}


def main() -> None:
    """Measure each engine, and print the shares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bystander")
    parser.add_argument("engines", nargs="*", default=["postgres", "mariadb"], metavar="ENGINE")
    parser.add_argument("--for", dest="for_s", type=float, default=FOR_S, metavar="SECONDS")
    chosen = parser.parse_args()
    for engine in chosen.engines:
        cost = dict(measure(engine, chosen.for_s))
        started_s = cost.pop("start")
        shares = ", ".join(f"{who} {share:.2%}" for who, share in cost.items())
        print(f"{engine}: {sum(cost.values()):.2%} of a core ({shares}); its start {started_s:.2f} s", flush=True)


if __name__ == "__main__":
    main()
