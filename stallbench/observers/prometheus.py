"""A Prometheus beside an embedded run: it begins with the run, keeps its data in the run's temporary folder, and ends with both."""

from __future__ import annotations

import time
from pathlib import Path

import requests

from stallbench.errors import NotCarriedOutError
from stallbench.observers.curves import curves_page
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.servers.ports import LOOPBACK, is_free
from stallbench.setup.components import require_prometheus

DEFAULT_PORT = 9090
_START_S = 20.0
_MOST_BYTES = "512MB"
"""Of blocks, head and write-ahead log together; the oldest go first."""
_SETTINGS = """\
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: stallbench
    file_sd_configs:
      - files: ["{targets}"]
        refresh_interval: 2s
"""


def _options_of_debian(program: Path) -> list[str]:
    """Return where the pages of a package that was only unpacked are; a release carries its own, and does not know the option."""
    pages = program.parent.parent / "share" / "prometheus" / "web"
    return [f"--web.local-assets={pages}/"] if pages.is_dir() else []


class PrometheusServer:
    """One Prometheus that watches one run."""

    def __init__(self, processes: Supervisor, *, targets: Path, scratch: Path, logs: Path, port: int) -> None:
        """Start it; `wait_ready` waits until it answers.

        ``targets``: the file of its file discovery. ``scratch``: the run's temporary folder. ``port``: on loopback.

        Raises `NotCarriedOutError` when the program or the port cannot be had.
        """
        part = require_prometheus()
        if not is_free(port):
            raise NotCarriedOutError(f"port {port} on {LOOPBACK} is in use; choose another: --watch-port {port + 1}")
        self.address = f"http://{LOOPBACK}:{port}"
        folder = scratch / "prometheus"
        folder.mkdir()
        settings = folder / "prometheus.yml"
        settings.write_text(_SETTINGS.format(targets=targets.resolve()))
        pages = folder / "pages"
        pages.mkdir()
        (pages / "index.html").write_text(curves_page())
        self.process: Process = processes.start(
            "prometheus",
            "observer",
            [
                str(part.path),
                f"--config.file={settings}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--storage.tsdb.retention.size={_MOST_BYTES}",
                f"--web.listen-address={LOOPBACK}:{port}",
                f"--web.user-assets={pages}",
                "--log.level=warn",
                *_options_of_debian(part.path),
            ],
            log=logs / "prometheus.log",
            # The run is what is measured: whoever watches it may have one core of it at the most.
            environment={**part.environment, "GOMAXPROCS": "1"},
        )

    def wait_ready(self) -> None:
        """Wait until it answers; raises `NotCarriedOutError` with the end of its log if it does not."""
        until_s = time.monotonic() + _START_S
        while time.monotonic() < until_s and self.process.poll() is None:
            try:
                if requests.get(f"{self.address}/-/ready", timeout=1).ok:
                    return
            except requests.RequestException:
                pass
            time.sleep(0.05)
        raise NotCarriedOutError(f"Prometheus did not start within {_START_S:.0f} s{self.process.tail_log()}")

    def give_up(self) -> None:
        """End one that did not start; that it ended is no fault of the run then."""
        self.process.intended = "stopped"
        self.process.kill()
