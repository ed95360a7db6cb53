"""Carries `stallbench observe` out: one report, or a report that is updated, recorded and served to Prometheus as long as it is asked for."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.exposition import serve
from stallbench.exposition.intervals import Interval
from stallbench.exposition.targets import Targets
from stallbench.measures import MEASURES
from stallbench.observe.expectations import PHASE
from stallbench.observe.innodb.load import InnoDBLoadSubject
from stallbench.observe.innodb.observer import make_innodb_observer
from stallbench.observe.innodb.queues import InnoDBQueuesSubject
from stallbench.observe.observer import Observation, Observer, ServerGoneError, pause_after
from stallbench.observe.options import ObserveOptions
from stallbench.observe.postgres.load import LoadSubject
from stallbench.observe.postgres.observer import make_postgres_observer
from stallbench.observe.postgres.queues import QueuesSubject
from stallbench.observe.recording import QUEUE_KIND, Recording
from stallbench.observe.run_record import ObservationRecord
from stallbench.observe.sampled_metrics import SampledRun
from stallbench.observe.screen import ObserveScreen, describe_pace
from stallbench.run.record import RunStatus, UncertainMetric
from stallbench.scenario.expectation import Expectation

_BETWEEN_LOOKS_S = 2.0
"""Between the first two looks: rates and stuck clients need two."""


class _Ongoing:
    """An observation that is going on."""

    def __init__(self, options: ObserveOptions) -> None:
        """Look for the first time. Raises `NotCarriedOutError` if the server cannot be read, `BadInputError` if a queue is missing."""
        self.options = options
        is_postgres = options.servers.primary.engine == "postgres"
        self.queues = QueuesSubject(options.tables) if is_postgres else InnoDBQueuesSubject(options.tables)
        kind = LoadSubject if is_postgres else InnoDBLoadSubject
        self.load = kind(self.queues) if options.profile else None
        """Records the load of the queue."""
        self.observer: Observer = (
            make_postgres_observer(options.servers, self.queues, options.log, self.load)
            if is_postgres
            else make_innodb_observer(options.servers, self.queues, self.load)
        )
        self.recording: Recording | None = None
        self.lost = ""
        """Why the last look could not read the server; empty if it could."""
        self.looks = self.missed = 0
        self.first = self.last = self.observer.look()
        if self.first.gone:
            self.observer.close()
            endpoint = options.servers.primary
            user = f"{endpoint.user}@" if endpoint.user else ""
            address = f"{user}{endpoint.host or 'local socket'}:{endpoint.port}/{endpoint.database}"
            raise NotCarriedOutError(f"{address} cannot be read: {self.first.gone}")
        try:
            self.queues.require_named()
            if self.load is not None:
                self.load.require_queue()
        except BadInputError:
            self.observer.close()
            raise

    def look(self, *, reads_everything: bool = False) -> Observation:
        """Look, and record what the collectors measure."""
        observation = self.observer.look(reads_everything=reads_everything)
        self.looks += 1
        self.lost = observation.gone
        self.last = self.last if observation.gone else observation
        if self.recording is not None and not observation.gone:
            try:
                self.recording.sample(self.queues.take_new_counts())
            except ServerGoneError as error:
                self.missed += 1
                self.lost = str(error)
        elif self.recording is not None:
            self.recording.miss()
        self.missed += bool(observation.gone)
        return observation

    def continue_until(self, screen: ObserveScreen, until_s: float) -> None:
        """Look and show until ``until_s`` on the monotonic clock."""
        pause_s, is_second = _BETWEEN_LOOKS_S, True
        while time.monotonic() + pause_s <= until_s:
            time.sleep(pause_s)
            cpu_s, spent_s = time.process_time(), self.observer.spent_s
            observation = self.look(reads_everything=is_second)
            # A session that was opened in between has spent less than the former one.
            spent_s = max(self.observer.spent_s - spent_s, observation.spent_s)
            screen.show(observation, describe_pace(pause_after(spent_s, 0.0, self.options.every_s)))
            pause_s = pause_after(spent_s, time.process_time() - cpu_s, self.options.every_s)
            if is_second:
                # The first two looks read everything. Later ones leave out what is expensive, so they need not wait for it.
                pause_s, is_second = self.options.every_s, False
        time.sleep(max(0.0, until_s - time.monotonic()))


def observe_once(options: ObserveOptions) -> None:
    """Print one report. Raises `NotCarriedOutError` if the server cannot be read."""
    ongoing = _Ongoing(options)
    try:
        time.sleep(_BETWEEN_LOOKS_S)
        observation = ongoing.look(reads_everything=True)
    finally:
        ongoing.observer.close()
    if observation.gone:
        raise NotCarriedOutError(f"the connection to the server was lost: {observation.gone}")
    ObserveScreen(shows_all=options.shows_all).print(observation)


def observe_continuously(options: ObserveOptions) -> Path | None:
    """Update the report until Ctrl-C, or for the time that was asked for. Returns the folder in which the observation was recorded, if it was.

    Raises `NotCarriedOutError` if the server cannot be read at first; later it is tried again. Raises `KeyboardInterrupt` if a recorded observation is
    interrupted before its time is over.
    """
    ongoing = _Ongoing(options)
    until_s = time.monotonic() + options.for_s if options.for_s is not None else float("inf")
    try:
        with ExitStack() as stack:
            record = stack.enter_context(_recorded(ongoing)) if options.is_recorded else None
            if options.exposure:
                stack.enter_context(_exposed(ongoing, record))
            screen = stack.enter_context(ObserveScreen(shows_all=options.shows_all))
            if screen.is_redrawn:
                screen.show(ongoing.first, "rates follow with the second reading")
            ongoing.continue_until(screen, until_s)
            if ongoing.load is not None or options.expect:
                # A count that is expensive was left out of the looks before this one: its last figure may be minutes old.
                ongoing.look(reads_everything=True)
    except KeyboardInterrupt:
        if options.profile:
            print(f"interrupted: no profile was written to {options.profile}", file=sys.stderr)
        if options.is_recorded or options.profile:
            raise
        return None
    finally:
        ongoing.observer.close()
    if ongoing.load is not None and options.profile is not None:
        ongoing.load.write(options.profile, every_s=options.every_s)
        command = shlex.join(["stallbench", "run", str(options.profile)])
        print(f"the load was recorded; to repeat it: {command}; beside an idle transaction: {command} --variant longtx")
    return record.folder.path if record else None


@contextmanager
def _recorded(ongoing: _Ongoing) -> Iterator[ObservationRecord]:
    """Record the observation as a run, completed or aborted."""
    options = ongoing.options
    watched = Recording.describe(ongoing.queues.tables)
    record = ObservationRecord(
        options.runs,
        options.servers,
        watched,
        title=ongoing.first.title,
        version=ongoing.observer.sessions["primary"].version_text,
        duration_s=options.for_s or 0.0,
        every_s=options.every_s,
        expect=options.expect,
    )
    _start_recording(ongoing, record.folder.path)
    _say_what_is_not_sampled(options.expect, record.folder.path)

    def end(status: RunStatus, reason: str) -> None:
        uncertain = ongoing.recording.jobs.find_uncertain() if ongoing.recording is not None else []
        record.end(status, reason, [*_list_notes(ongoing), *_list_lower_bounds(uncertain)], uncertain)

    try:
        yield record
    except KeyboardInterrupt:
        end("aborted", "interrupted")
        print(f"the records are kept: stallbench report {record.folder.path}", file=sys.stderr)
        raise
    except BaseException as error:
        end("failed", str(error) or type(error).__name__)
        raise
    end("completed", ongoing.lost)


def _say_what_is_not_sampled(expect: Sequence[Expectation], folder: Path) -> None:
    """Name the metrics that the first reading lacks, such as dead tuples of MariaDB, before minutes of observation that end as unknown."""
    run = SampledRun(folder)
    metrics = list(dict.fromkeys(each.metric for each in expect))
    if missing := [metric for metric in metrics if not run.is_sampled(metric.partition(".")[0])]:
        print(
            f"not in the first reading: {', '.join(missing)}; an expectation of it is unknown unless it is measured later",
            file=sys.stderr,
        )


def _list_notes(ongoing: _Ongoing) -> list[str]:
    notes = [
        f"At the end ({ongoing.last.at:%H:%M:%S} UTC), {one.severity.name.lower()}: {one.sentence}"
        + (f" To end it: {one.statement}" if one.statement else "")
        for one in ongoing.last.findings
    ]
    notes += [f"Not seen: {one.what}: {one.why}." for one in ongoing.last.unseen]
    if ongoing.missed:
        notes.append(f"In {ongoing.missed} of {ongoing.looks} readings the server could not be read.")
    if ongoing.recording is not None:
        notes += [f"The collector {name} measured nothing at the end: {why}." for name, why in ongoing.recording.why_not.items()]
    return notes


def _list_lower_bounds(uncertain: Sequence[UncertainMetric]) -> list[str]:
    return [
        f"The {MEASURES[name].label} may at times have been larger than recorded: {one.why}."
        for one in uncertain
        for name, statistic in [one.metric.split(".")]
        if statistic == "max" and one.is_at_least
    ]


@contextmanager
def _exposed(ongoing: _Ongoing, record: ObservationRecord | None) -> Iterator[None]:
    """Serve what the collectors measure to Prometheus, and list the address for its file discovery."""
    from stallbench.exposition.run_figures import RunFigures
    from stallbench.exposition.sample_figures import SampleFigures

    options = ongoing.options
    assert options.exposure is not None, "asked for"
    figures, phase = SampleFigures(options.every_s), RunFigures()
    interval = Interval(what="phase", name=PHASE, kind="measured", on="", start_ns=time.time_ns(), end_ns=None)
    phase.observe([interval])
    with tempfile.TemporaryDirectory(prefix=f"stallbench-observe-{os.getpid()}-") as scratch:
        if ongoing.recording is None:
            (Path(scratch) / "samples").mkdir()
            _start_recording(ongoing, Path(scratch), figures)
        else:
            ongoing.recording.observe = figures.keep
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


def _start_recording(ongoing: _Ongoing, folder: Path, figures: object = None) -> None:
    options = ongoing.options
    ongoing.recording = Recording(
        folder,
        options.servers,
        ongoing.queues.tables,
        lambda: ongoing.observer.sessions,
        every_s=options.every_s,
        log=options.log,
    )
    ongoing.recording.observe = getattr(figures, "keep", None)
    ongoing.recording.sample(ongoing.queues.counts)
