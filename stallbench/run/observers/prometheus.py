"""A Prometheus that the bench starts for one run; its data is in the run's temporary folder."""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import urlencode

import requests

from stallbench.base.ports import LOOPBACK, is_free
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.setup.server_programs import require_server
from stallbench.waiting import wait_until

DEFAULT_PORT = 9090
CURVES = (
    "histogram_quantile(0.95, sum by (le) (rate(stallbench_claim_seconds_bucket[5s])))",
    "max by (table) (stallbench_dead_tuples) or max by (server) (stallbench_history_list_length)",
    "max(stallbench_queue_depth)",
    "max by (server) (stallbench_oldest_transaction_seconds)",
)
"""Claim time, dead tuples, depth, oldest transaction: as on the dashboard *Run*, but for one run only."""
_START_S = 20.0
_MOST_BYTES = "512MB"
"""Limit of blocks, head and write-ahead log together; the oldest data is removed first."""
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
    """Return the option with the folder of the web pages of an unpacked Debian package; a release contains its pages."""
    pages = program.parent.parent / "share" / "prometheus" / "web"
    return [f"--web.local-assets={pages}/"] if pages.is_dir() else []


class PrometheusServer:
    """One Prometheus that observes one run."""

    def __init__(self, processes: Supervisor, *, targets: Path, scratch: Path, logs: Path, port: int) -> None:
        """Start it; `wait_ready` waits until it answers.

        ``targets``: the file of its file discovery. ``scratch``: the run's temporary folder. ``port``: on loopback.

        Raises `NotCarriedOutError` if the program is not installed or the port is in use.
        """
        program = require_server("prometheus")
        if not is_free(port):
            raise NotCarriedOutError(f"port {port} on {LOOPBACK} is in use; choose another: --watch-port {port + 1}")
        self.address = f"http://{LOOPBACK}:{port}"
        folder = scratch / "prometheus"
        folder.mkdir()
        settings = folder / "prometheus.yml"
        settings.write_text(_SETTINGS.format(targets=targets.resolve()))
        pages = folder / "pages"
        pages.mkdir()
        (pages / "index.html").write_text(_curves_page())
        self.process: Process = processes.start(
            "prometheus",
            "observer",
            [
                str(program.path),
                f"--config.file={settings}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--storage.tsdb.retention.size={_MOST_BYTES}",
                f"--web.listen-address={LOOPBACK}:{port}",
                f"--web.user-assets={pages}",
                "--log.level=warn",
                *_options_of_debian(program.path),
            ],
            log=logs / "prometheus.log",
            # It must not disturb the run that it observes: it may use one core at most.
            environment={**program.environment, "GOMAXPROCS": "1"},
        )

    def wait_ready(self) -> None:
        """Wait until it answers; raises `NotCarriedOutError` with the end of its log if it does not."""
        wait_until(lambda: self.process.poll() is not None or self._is_ready(), within_s=_START_S, every_s=0.05)
        if self.process.poll() is not None or not self._is_ready():
            raise NotCarriedOutError(f"Prometheus did not start within {_START_S:.0f} s{self.process.tail_log()}")

    def _is_ready(self) -> bool:
        try:
            return bool(requests.get(f"{self.address}/-/ready", timeout=1).ok)
        except requests.RequestException:
            return False

    def stop(self) -> None:
        """Stop one that did not become ready; its end does not count as unexpected."""
        self.process.intended = "stopped"
        self.process.kill()


def _curves_page() -> str:
    """Return the page that Prometheus serves: it redirects to its graphs of `CURVES`."""
    asked = [
        pair
        for number, expr in enumerate(CURVES)
        for pair in ((f"g{number}.expr", expr), (f"g{number}.tab", "0"), (f"g{number}.range_input", "3m"))
    ]
    address = html.escape(f"../graph?{urlencode(asked)}")
    return f'<!doctype html><title>stallbench</title><meta http-equiv="refresh" content="0; url={address}">\n'
