"""Records an observation that is going on as a run's folder, and serves its figures to Prometheus."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stallbench.measures import MEASURES
from stallbench.observe.expectations import PHASE
from stallbench.observe.observation_session import ObservationSession
from stallbench.observe.run_record import ObservationRecord
from stallbench.observe.sampled_metrics import SampledRun
from stallbench.observe.sampling import QUEUE_KIND, Sampling
from stallbench.processes.exposure import serve
from stallbench.processes.targets import Targets
from stallbench.run.intervals import Interval
from stallbench.run.record import RunStatus, UncertainMetric
from stallbench.scenario.expectation import Expectation
from stallbench.shell_command import format_shell_command
from stallbench.visible_text import say


@contextmanager
def recorded(session: ObservationSession) -> Iterator[ObservationRecord]:
    """Record the observation as a run, completed or aborted."""
    options = session.options
    watched = Sampling.describe(session.queues.tables)
    record = ObservationRecord(
        options.runs,
        options.servers,
        watched,
        title=session.first.title,
        version=session.observer.sessions["primary"].version_text,
        duration_s=options.for_s or 0.0,
        every_s=options.every_s,
        expect=options.expect,
    )
    _start_recording(session, record.folder.path)
    _say_what_is_not_sampled(options.expect, record.folder.path)

    def end(status: RunStatus, reason: str) -> None:
        uncertain = session.sampling.jobs.find_uncertain() if session.sampling is not None else []
        record.end(status, reason, [*_list_notes(session), *_list_lower_bounds(uncertain)], uncertain)

    try:
        yield record
    except KeyboardInterrupt:
        end("aborted", "interrupted")
        say(f"the records are kept: {format_shell_command(['stallbench', 'report', record.folder.path])}", to=sys.stderr)
        raise
    except BaseException as error:
        end("failed", str(error) or type(error).__name__)
        raise
    end("completed", session.lost)


def _say_what_is_not_sampled(expect: Sequence[Expectation], folder: Path) -> None:
    """Name the metrics that the first reading lacks, such as dead tuples of MariaDB, before minutes of observation that end as unknown."""
    run = SampledRun(folder)
    metrics = list(dict.fromkeys(each.metric for each in expect))
    if missing := [metric for metric in metrics if not run.is_sampled(metric.partition(".")[0])]:
        say(
            f"not in the first reading: {', '.join(missing)}; an expectation of it is unknown unless it is measured later",
            to=sys.stderr,
        )


def _list_notes(session: ObservationSession) -> list[str]:
    notes = [
        f"At the end ({session.last.at:%H:%M:%S} UTC), {one.severity.name.lower()}: {one.sentence}"
        + (f" To end it: {one.statement}" if one.statement else "")
        for one in session.last.findings
    ]
    notes += [f"Not seen: {one.what}: {one.why}." for one in session.last.not_visible]
    if session.missed:
        notes.append(f"In {session.missed} of {session.readings} readings the server could not be read.")
    if session.sampling is not None:
        notes += [f"The collector {name} measured nothing at the end: {why}." for name, why in session.sampling.why_not.items()]
    return notes


def _list_lower_bounds(uncertain: Sequence[UncertainMetric]) -> list[str]:
    return [
        f"The {MEASURES[name].label} may at times have been larger than recorded: {one.why}."
        for one in uncertain
        for name, statistic in [one.metric.split(".")]
        if statistic == "max" and one.is_at_least
    ]


@contextmanager
def exposed(session: ObservationSession, record: ObservationRecord | None) -> Iterator[None]:
    """Serve what the collectors measure to Prometheus, and list the address for its file discovery."""
    from stallbench.processes.sample_figures import SampleFigures
    from stallbench.run.run_figures import RunFigures

    options = session.options
    assert options.exposure is not None, "asked for"
    figures, phase = SampleFigures(options.every_s), RunFigures()
    interval = Interval(what="phase", name=PHASE, kind="measured", on="", start_ns=time.time_ns(), end_ns=None)
    phase.observe([interval])
    with tempfile.TemporaryDirectory(prefix=f"stallbench-observe-{os.getpid()}-") as scratch:
        if session.sampling is None:
            (Path(scratch) / "samples").mkdir()
            _start_recording(session, Path(scratch), figures)
        else:
            session.sampling.observe = figures.keep
        port = serve(options.exposure, figures, phase)["metrics_port"]
        run = record.folder.path if record else options.runs / f"observe-{options.servers.primary.database or 'server'}"
        run.parent.mkdir(parents=True, exist_ok=True)
        labels = {
            "scenario": "observe",
            "variant": "control",
            "queue": QUEUE_KIND,
            "engine": options.servers.primary.engine,
            "run": run.name,
        }
        targets = Targets(run, labels, options.exposure.host)
        targets.say_phase(PHASE)
        targets.say_processes({"observe": port}, {})
        try:
            yield
        finally:
            targets.end()


def _start_recording(session: ObservationSession, folder: Path, figures: object = None) -> None:
    options = session.options
    session.sampling = Sampling(
        folder,
        options.servers,
        session.queues.tables,
        lambda: session.observer.sessions,
        every_s=options.every_s,
        log=options.log,
    )
    session.sampling.observe = getattr(figures, "keep", None)
    session.sampling.sample(session.queues.counts)
