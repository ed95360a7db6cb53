"""The observers of a run: started with it, updated while it is active, and stopped at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stallbench.base.ports import LOOPBACK
from stallbench.base.storage.targets_file import name_targets
from stallbench.errors import NotCarriedOutError
from stallbench.processes.exposure import Exposure, require_address, serve
from stallbench.processes.supervisor import Supervisor
from stallbench.processes.targets import Targets
from stallbench.run.folder import RunFolder
from stallbench.run.intervals import Interval
from stallbench.run.observers.annotations import Annotations
from stallbench.run.observers.grafana import GrafanaAddress, read_grafana
from stallbench.run.observers.prometheus import DEFAULT_PORT, PrometheusServer

if TYPE_CHECKING:
    from stallbench.run.run_figures import RunFigures

_OWN_NAME = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverOptions:
    """Which observers a run has; none by default."""

    exposure: Exposure | None = None
    """Where the run's processes answer Prometheus."""
    prometheus_port: int | None = None
    """Where on loopback to start a Prometheus; needs ``exposure``."""
    grafana: GrafanaAddress | None = None
    """Where to write annotations."""


def read_observer_options(*, expose: str | None, watch: bool, watch_port: int | None, annotate: str | None) -> ObserverOptions:
    """Check the command line's options for observers; raises `BadInputError`. ``--watch`` alone implies ``--expose`` on loopback."""
    if watch and watch_port is None:
        watch_port = DEFAULT_PORT
    if expose is None and watch_port is not None:
        expose = LOOPBACK
    return ObserverOptions(
        exposure=require_address(expose) if expose else None,
        prometheus_port=watch_port,
        grafana=read_grafana(annotate, None, "--annotate") if annotate else None,
    )


class Observers:
    """The observers of one run."""

    def __init__(
        self, observer_options: ObserverOptions, folder: RunFolder, labels: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        """Write the file of the run's targets; nothing is started. ``labels``: those of all series. ``say``: shows the user a message."""
        labels = {**labels, "run": folder.path.name}
        self._observer_options = observer_options
        self._folder = folder
        self._say = say
        self._figures: RunFigures | None = None
        self._ports: dict[str, int] = {}
        self._targets = Targets(folder.path, labels, observer_options.exposure.host) if observer_options.exposure else None
        self._annotations = Annotations(observer_options.grafana, labels, say) if observer_options.grafana else None

    def start(self, processes: Supervisor, scratch: Path) -> None:
        """Start them. If one cannot be started, the user sees one message and the run continues without it."""
        if self._observer_options.exposure is None:
            return
        from stallbench.run.run_figures import RunFigures

        self._figures = RunFigures()
        self._ports = {_OWN_NAME: serve(self._observer_options.exposure, self._figures)["metrics_port"]}
        if self._observer_options.prometheus_port is not None:
            self._start_prometheus(processes, scratch, self._observer_options.prometheus_port)

    def _start_prometheus(self, processes: Supervisor, scratch: Path, port: int) -> None:
        prometheus = None
        try:
            prometheus = PrometheusServer(
                processes, targets=name_targets(self._folder.path), scratch=scratch, logs=self._folder.logs, port=port
            )
            prometheus.wait_ready()
        except NotCarriedOutError as error:
            if prometheus:
                prometheus.stop()
            self._say(f"--watch: the run continues without Prometheus: {error}")
        else:
            self._say(
                f"Prometheus observes the run until it ends: {prometheus.address}, the four curves: {prometheus.address}/user/"
            )

    def update(self, intervals: Sequence[Interval], ports: Mapping[str, int], external: Mapping[str, str]) -> None:
        """Pass on what is active, and where processes answer Prometheus: ``ports`` of the bench's, ``host:port`` of ``external`` ones."""
        if self._figures:
            self._figures.observe(intervals)
        if self._annotations:
            self._annotations.observe(intervals)
        if self._targets:
            self._targets.say_phase(next((s.name for s in intervals if s.what == "phase" and s.end_ns is None), ""))
            self._targets.say_processes({**self._ports, **ports}, external)

    def stop(self, intervals: Sequence[Interval]) -> None:
        """Stop them. A second call does nothing."""
        if self._targets:
            self._targets.end()
        if self._annotations:
            self._annotations.observe(intervals)
            self._annotations.end()
