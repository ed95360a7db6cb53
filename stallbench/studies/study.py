"""A study: several runs with one purpose, in one folder, with one record.

A `Study` yields its next run from the outcomes so far. `Study.carry_out` carries the runs out and writes the record before and after each, so that an
interrupted or killed study can be read and continued. What a kind of study has of its own is in its folder beside this module.
"""

from __future__ import annotations

import json
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Annotated, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from stallbench.base.duration import ON_RECORD
from stallbench.base.number_text import format_plural
from stallbench.base.storage.atomic_file import replace_file
from stallbench.base.storage.format import require_format
from stallbench.base.storage.record_text import read_record_text
from stallbench.errors import EXIT_FAIL, EXIT_INTERRUPTED, EXIT_NOT_CARRIED_OUT, EXIT_PASS, BadInputError, StallbenchError
from stallbench.pipeline.process import PipelineProcess
from stallbench.processes.reaper import is_bench_alive
from stallbench.report.conclusion import conclude
from stallbench.report.outcome_text import VerdictWords
from stallbench.report.run_index import renew_index
from stallbench.run.capacity import measure_capacity
from stallbench.run.folder import STUDY, RunFolder
from stallbench.run.opening import open_run
from stallbench.run.record import BenchRecord, describe_bench
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.studies.regressions import decide_regressions
from stallbench.verdicts import Verdict
from stallbench.verdicts.check import Finding

FORMAT: Literal[1] = 1

Say = Callable[[str], None]
"""Takes one message to the user."""


class StudyPart(BaseModel):
    """A part of a record."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
"""What an address begins with."""


def _require_below(folder: str) -> str:
    """Refuse a path that leads out of the study, or that a page would take for an address: somebody may have sent the record."""
    parts = folder.replace("\\", "/").split("/")
    if _SCHEME.match(folder) or any(part in ("", ".", "..") or not part.isprintable() for part in parts):
        raise ValueError(f"{folder!r} is not the path of a folder below that of the runs")
    return folder


class StudyRun(StudyPart):
    """One run of a study."""

    number: int
    """From 1."""
    folder: Annotated[str, AfterValidator(_require_below)] | None = None
    """Path of the run's folder, relative to where the study has its runs and below it; none if the run has none."""
    status: Literal["planned", "running", "completed", "failed", "aborted"] = "planned"
    """``failed``: could not be carried out. ``aborted``: interrupted, or the bench was killed during it."""
    reason: str = ""
    """The reason of the verdict, or why there is none."""
    verdict_name: str = ""
    """The words of the verdict (`stallbench.report.outcome_text.name_verdict`); empty if there is none."""


class StudyRecord(StudyPart):
    """What ``study.json`` has of every study; a kind of study adds its plan and what its runs have shown."""

    format: Literal[1] = FORMAT
    kind: str
    """The name of the folder in ``stallbench/studies`` that knows the rest."""
    id: str
    status: Literal["running", "completed", "failed", "aborted"] = "running"
    """``completed``: the plan has no further run. ``failed``: a run without which there is no next one could not be carried out.
    ``aborted``: interrupted, or the bench was killed."""
    reason: str = ""
    bench: BenchRecord
    runs: tuple[StudyRun, ...] = ()
    regressions: tuple[Finding, ...] = ()
    """The findings against the baseline; empty before the study has ended, and without a baseline."""

    @property
    @abstractmethod
    def verdict(self) -> Literal["pass", "fail", "unknown"]:
        """What the runs show: ``fail`` as soon as it is known, the others when the study is completed."""

    @abstractmethod
    def word_verdict(self) -> VerdictWords:
        """Return the words of a verdict that is known."""

    @property
    def words(self) -> VerdictWords:
        """How every page, file and line says the verdict, or that the study is not complete."""
        if self.verdict != "fail" and (self.status != "completed" or self.is_lacking):
            name = "running" if self.is_running else "not completed"
            return VerdictWords(result="unknown", name=name, sentence=self.progress)
        return self.word_verdict()

    @property
    def progress(self) -> str:
        """How far the study has come, in one sentence."""
        done, runs = sum(run.status == "completed" for run in self.runs), len(self.runs)
        if self.is_running:
            return f"Running: {done} of {runs} runs are done."
        if self.status != "completed":
            return f"Not completed: {self.reason or 'the bench was killed'}; {done} of {runs} runs are done."
        if self.is_lacking and done < runs:
            return f"Not completed: {done} of {runs} runs are done; the others could not be carried out."
        if self.is_lacking:
            return f"Not completed: all {runs} runs are done, but not all that was asked for could be run."
        others = f"; {format_plural(runs - done, 'other')} did not come to the end" if done < runs else ""
        return f"Completed: {format_plural(done, 'run')}{others}." if runs else "Completed."

    @property
    def is_lacking(self) -> bool:
        """Whether a completed study lacks runs that could not be carried out."""
        return False

    @property
    def exit_code(self) -> int:
        """The exit code of a command that shows the study."""
        if self.status != "completed":
            return EXIT_INTERRUPTED if self.status == "aborted" else EXIT_NOT_CARRIED_OUT
        if self.is_lacking:
            return EXIT_NOT_CARRIED_OUT
        return EXIT_PASS if self.verdict == "pass" and decide_regressions(self.regressions) in (None, "pass") else EXIT_FAIL

    @property
    def is_running(self) -> bool:
        """Whether the process that carries the study out is alive."""
        return self.status == "running" and is_bench_alive(self.bench.model_dump())

    def with_run(self, run: StudyRun) -> Self:
        """Return the record with ``run`` in place of the run of the same number, or after all others."""
        runs = {each.number: each for each in (*self.runs, run)}
        return self.model_copy(update={"runs": tuple(runs[number] for number in sorted(runs))})

    def with_end(self, status: Literal["completed", "failed", "aborted"], reason: str) -> Self:
        """Return the record of a study that has ended. A run that was running ended with it."""
        ended = {"status": "aborted" if status == "aborted" else "failed", "reason": reason}
        runs = tuple(run.model_copy(update=ended) if run.status == "running" else run for run in self.runs)
        return self.model_copy(update={"status": status, "reason": reason, "runs": runs})

    def require_lacking(self, folder: Path) -> None:
        """Raise `BadInputError` if the study in ``folder`` is complete, so that there is nothing to continue."""
        if self.status == "completed":
            raise BadInputError(f"{folder}: is complete; there is nothing to continue")

    def continued(self) -> Self:
        """Return the record of a study that this process continues. A run during which the bench was killed is ``aborted``."""
        killed = {"status": "aborted", "reason": "the bench was killed during it"}
        runs = tuple(run.model_copy(update=killed) if run.status == "running" else run for run in self.runs)
        begun = {"status": "running", "reason": "", "bench": describe_bench(), "runs": runs, "regressions": ()}
        return self.model_copy(update=begun)


Record = TypeVar("Record", bound=StudyRecord)
Run = TypeVar("Run", bound=StudyRun)


class StudyFolder(Generic[Record]):
    """A study's folder: ``study.json``, ``report.html``, ``summary.md``, ``junit.xml``."""

    model: ClassVar[type[StudyRecord]]
    """Of the record."""

    def __init__(self, path: Path) -> None:
        """Use the folder at ``path``; nothing is read or created."""
        self.path = path

    @property
    def runs(self) -> Path:
        """Where the folders of its runs are."""
        return self.path

    def read(self) -> Record:
        """Return the record; raises `BadInputError` if the file holds none, or one of another kind or format."""
        path = self.path / STUDY
        found: Record = parse_study(read_record_text(path), str(path), self.model)  # type: ignore[assignment] # the class names its model
        return found

    def read_to_continue(self) -> Record:
        """Return the record of a study that can be continued; raises `BadInputError` if a process carries it out."""
        record = self.read()
        if record.is_running:
            raise BadInputError(f"{self.path}: is still running, in the process {record.bench.pid}")
        return record

    def write(self, record: Record) -> None:
        """Replace the record atomically. Half of a character, which a user's queue may have raised, is no valid JSON: it becomes a question mark."""
        text = json.dumps(record.model_dump(mode="json"), ensure_ascii=False).encode(errors="replace")
        replace_file(self.path / STUDY, json.dumps(json.loads(text), indent=1))


def parse_study(text: str, where: str, model: type[StudyRecord]) -> StudyRecord:
    """Return the record in the ``text`` of the file ``where``; raises `BadInputError` if it is none, or has another kind or format."""
    try:
        require_format(json.loads(text), FORMAT, where, "repeat the study, or read it with the version that wrote it")
        return model.model_validate_json(text, by_name=True, by_alias=False, context={ON_RECORD: True})
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in issue["loc"])
        raise BadInputError(f"{where}: not a study's record: {key + ': ' if key else ''}{issue['msg']}") from None
    except (ValueError, RecursionError) as error:  # no JSON, or a number with thousands of digits
        raise BadInputError(f"{where}: not a study's record: {error}") from None


class Runner(Protocol):
    """Carries out the single runs of a study. Between ``__enter__`` and ``__exit__`` it may keep what they share."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End what the runs share."""

    def measure_capacity(self, scenario: Scenario, say: Say, folder: Path) -> float:
        """Return how many jobs per second the workers complete on a full queue; raises `NotCarriedOutError`."""

    def carry_out(self, scenario: Scenario, runs: Path, begun: Callable[[RunFolder], None]) -> RunFolder:
        """Carry a run out in a new folder below ``runs``, with which ``begun`` is called at once; raises `StallbenchError`."""

    def make_tables(self, folder: RunFolder) -> None:
        """Make the tables of a run; raises `NotCarriedOutError`."""

    def conclude(self, folder: RunFolder) -> Verdict:
        """Make tables, verdict and report of a run; raises `NotCarriedOutError`."""


class SeparateRuns:
    """A `Runner` that gives each run servers of its own, and keeps only the process that makes the tables."""

    def __init__(self, view: Callable[[], AbstractContextManager[RunView]] = RunView, *, is_latest: bool) -> None:
        """Start nothing yet. ``view``: what a run prints to. ``is_latest``: whether the name ``latest`` refers to the newest run."""
        self._view = view
        self._is_latest = is_latest
        self._pipeline = PipelineProcess()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the process that makes the tables."""
        self._pipeline.__exit__(kind, error, trace)

    def measure_capacity(self, scenario: Scenario, say: Say, folder: Path) -> float:
        """Measure in a run of its own."""
        return measure_capacity(scenario, say, folder)

    def carry_out(self, scenario: Scenario, runs: Path, begun: Callable[[RunFolder], None]) -> RunFolder:
        """Carry the run out from its servers to its final snapshot."""
        with self._view() as view, open_run(scenario, runs, view, is_latest=self._is_latest) as run:
            begun(run.folder)
            run.carry_out()
            return run.folder

    def make_tables(self, folder: RunFolder) -> None:
        """Make the tables in the kept process."""
        self._pipeline.make_tables(folder)

    def conclude(self, folder: RunFolder) -> Verdict:
        """Make the tables in the kept process, then verdict and report."""
        return conclude(folder, self._pipeline.make_tables)


class Study(ABC, Generic[Record, Run]):
    """A study that this process carries out."""

    ends_at_failure: ClassVar[bool] = True
    """Whether there is no next run after one that could not be carried out."""

    def __init__(self, folder: StudyFolder[Record], record: Record, runner: Runner, say: Say) -> None:
        """Start nothing yet."""
        self.folder = folder
        self.record = record
        self.runner = runner
        self.say = say

    def prepare(self) -> None:
        """Do what comes before the next run. Raises `StallbenchError` if there can be none."""

    @abstractmethod
    def next_run(self) -> Run | None:
        """Return the next run, from the outcomes so far; none if the plan has no other."""

    @abstractmethod
    def scenario_of(self, run: Run) -> Scenario:
        """Return the scenario of a run."""

    @abstractmethod
    def judge(self, run: Run, folder: RunFolder) -> Run:
        """Return ``run`` with what it has shown. Its folder has records, but no tables yet. Raises `StallbenchError` if these cannot be made."""

    def title_of(self, run: Run) -> str:
        """Return what a message calls a run."""
        return f"run {run.number}"

    def carry_out(self) -> Record:
        """Carry out the runs that the plan yields; returns the record, which has the outcome of each.

        An interrupt ends the study as ``aborted``, and a full disk as ``failed``, with the runs so far; nothing is raised then.
        """
        status: Literal["completed", "failed", "aborted"] = "failed"
        reason = "the bench ended unexpectedly"
        try:
            with self.runner:
                self.prepare()
                failed = self._carry_out_runs()
            status, reason = ("failed", failed) if failed else ("completed", "")
        except KeyboardInterrupt:
            status, reason = "aborted", "interrupted"
        except StallbenchError as error:
            self.say(f"failed: {error}")
            reason = str(error).partition("\n")[0]
        except OSError as error:
            reason = f"{self.folder.path / STUDY} could not be written: {error.strerror or error}"
        except BaseException as error:
            reason = str(error)
            raise
        finally:
            self._end(status, reason)
        return self.record

    def _carry_out_runs(self) -> str:
        """Return why the plan could not go on; empty if it has no further run."""
        while (run := self.next_run()) is not None:
            done = self._carry_out_run(run)
            if done.status == "failed" and self.ends_at_failure:
                return done.reason
        return ""

    def _carry_out_run(self, run: Run) -> Run:
        scenario = self.scenario_of(run)
        run = self._keep(run.model_copy(update={"status": "running"}))

        def begun(folder: RunFolder) -> None:
            nonlocal run
            run = self._keep(run.model_copy(update={"folder": str(folder.path.relative_to(self.folder.runs))}))

        try:
            folder = self.runner.carry_out(scenario, self.folder.runs, begun)
            done = self.judge(run, folder).model_copy(update={"status": "completed"})
        except KeyboardInterrupt:
            self._keep(run.model_copy(update={"status": "aborted", "reason": "interrupted"}))
            raise
        except (StallbenchError, OSError, subprocess.SubprocessError) as error:
            sentence = str(error).strip()
            self.say(f"{self.title_of(run)}: failed: {sentence}")
            done = run.model_copy(update={"status": "failed", "reason": sentence.partition("\n")[0]})
        done = self._keep(done)
        renew_index(self.folder.path.parent)
        return done

    def _keep(self, run: Run) -> Run:
        """Write the record with ``run``, and return it."""
        self.record = self.record.with_run(run)
        self.folder.write(self.record)
        return run

    def _end(self, status: Literal["completed", "failed", "aborted"], reason: str) -> None:
        self.record = self.record.with_end(status, reason)
        try:
            self.folder.write(self.record)
        except OSError as error:
            why = f"{self.folder.path / STUDY} could not be written: {error.strerror or error}"
            self.say(f"failed: {why}")
            self.record = self.record.with_end("failed", why)
