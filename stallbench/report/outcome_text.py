"""The outcome and the verdict of a run in sentences, for readers who know none of the bench's terms: headline, summary, terminal, JUnit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stallbench.base.number_text import format_value
from stallbench.engines import ENGINES
from stallbench.injection.faults import find_faults
from stallbench.records.injections import InjectionRecord
from stallbench.run.record import RunRecord
from stallbench.scenario.command import argument_of, changes_of, is_of_project, list_changes
from stallbench.scenario.file import ScenarioError, find_scenario, read_mitigations
from stallbench.scenario.model import Scenario
from stallbench.shell_command import format_shell_command
from stallbench.verdicts import Finding, Outcome, Verdict
from stallbench.verdicts.check import Result
from stallbench.verdicts.horizon import HolderStay
from stallbench.verdicts.outcome import OtherQueries, PhaseOutcome, Recovery, Safety
from stallbench.verdicts.requirements import Requirements, describe_awaiting, describe_jobs, format_ms
from stallbench.verdicts.verdict import REQUIREMENT_WORDS, describe_expected, describe_required

_IDS = 5
_SHOWN_MITIGATIONS = 3
_SHOWN_PROMISES = 3
_BASELINE_WORDS: Mapping[Result, str] = {
    "pass": "no worse than the baseline",
    "fail": "worse than the baseline",
    "unknown": "not known whether worse than the baseline",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictWords:
    """The verdict of a study, or the result of its comparison with a baseline, as every page, file and line says it."""

    result: Result
    name: str
    """What a badge shows, like *survived*."""
    sentence: str
    """Begins with the name, and has the reason."""


class JudgedRun(Protocol):
    """A run of a study that has a verdict."""

    @property
    def number(self) -> int:
        """From 1."""

    @property
    def verdict(self) -> Result | None:
        """None if the run was not completed."""

    @property
    def verdict_name(self) -> str:
        """As `name_verdict` returned it; empty in records of earlier versions."""

    @property
    def reason(self) -> str:
        """Of the verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Who held the horizon, and the statement that ends it."""

    sentence: str
    statement: str
    """Empty if the bench knows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeTile:
    """One part of the outcome, as a figure."""

    label: str
    figure: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """What is meant against the problem of a scenario, and the command that tries it."""

    sentence: str
    command: str


def describe_run(record: RunRecord, verdict: Verdict) -> str:
    """Return what happened to the queue, in users' terms, and then the verdict: the headline."""
    return " ".join(part for part in (describe_outcome(record, verdict), describe_verdict(record, verdict)) if part)


def describe_outcome(record: RunRecord, verdict: Verdict) -> str:
    """Return what happened to the queue; empty if a server was only observed."""
    if record.is_observation:
        return ""
    if verdict.outcome is None:
        return f"What happened to the queue is not known: {verdict.no_outcome}."
    outcome = verdict.outcome
    parts = [
        _describe_phase(record, outcome.worst) if outcome.worst else "No fault was injected.",
        *_describe_safety(record, outcome.safety),
        *_describe_other_queries(outcome.worst.other_queries if outcome.worst else None),
    ]
    return " ".join([*parts, *_describe_exited(outcome)])


def name_verdict(record: RunRecord, verdict: Verdict) -> str:
    """Return the verdict in the words that every page, file and line uses for it: *survived* or *did not survive* of a queue of which something is
    required, *reproduced* or *not reproduced* of an experiment that expects something, *passed* or *failed* of others, else *unknown*.

    *Not passed*: the queue was as required, and something else failed, such as the bench's own load.
    """
    if verdict.status != "completed":
        return "not completed"
    if verdict.verdict == "unknown":
        return "unknown"
    if required := list(dict.fromkeys(each.outcome for each in record.scenario.require)):
        if verdict.verdict == "pass":
            return describe_required(record)
        if not _list_required(verdict, "fail"):
            return "not passed"
        return REQUIREMENT_WORDS[required[0]][1] if len(required) == 1 else "not as required"
    is_reproduction = bool(record.scenario.expect) and not record.is_observation
    holds, fails = ("reproduced", "not reproduced") if is_reproduction else ("passed", "failed")
    return holds if verdict.verdict == "pass" else fails


def explain_verdict(record: RunRecord, verdict: Verdict) -> str:
    """Return the reason of the verdict, to follow its name; empty if there is no more to say. What else failed is not said of the queue."""
    if verdict.verdict == "pass":
        return describe_expected(record)
    if verdict.status != "completed" or verdict.verdict == "unknown" or not record.scenario.require:
        return verdict.reason
    if failed := _list_required(verdict, "fail"):
        others = sum(each.result == "fail" for each in verdict.findings) - 1
        return failed[0].reason + (f" (and {others} more)" if others else "")
    was = "" if _list_required(verdict, "unknown") else f"{describe_required(record)}, but "
    return f"{was}{verdict.reason}"


def describe_verdict(record: RunRecord, verdict: Verdict) -> str:
    """Return the verdict and its reason as a sentence."""
    name, reason = name_verdict(record, verdict), explain_verdict(record, verdict)
    return f"{start_sentence(name)}{f': {reason}' if reason else ''}."


def word_promises(result: Result, promises: Mapping[str, Result]) -> VerdictWords:
    """Return the verdict of a queue whose promises were tried. ``promises``: what was found, by the name of each; ``info``: the queue does not give it."""
    found = {each: [name for name, of_one in promises.items() if of_one == each] for each in ("pass", "fail", "unknown")}
    if result == "pass":
        kept = f"kept all {len(found['pass'])} promises" if len(found["pass"]) > 1 else "kept its promise"
        others = len(promises) - len(found["pass"])
        more = f"; it does not give {others} other{'s' if others > 1 else ''}" if others else ""
        return VerdictWords(result=result, name=kept, sentence=f"{start_sentence(kept)}{more}.")
    which = _list_first(found[result], _SHOWN_PROMISES)
    if result == "fail":
        broke = f"broke {len(found['fail'])} promise{'s' if len(found['fail']) > 1 else ''}"
        return VerdictWords(result=result, name=broke, sentence=f"{start_sentence(broke)}: {which}.")
    tried = sum(map(len, found.values()))
    could_not = f"{len(found['unknown'])} of {tried} promises could not be judged: {which}" if which else "no promise was judged"
    return VerdictWords(result=result, name="unknown", sentence=f"Unknown: {could_not}.")


def word_of_queue(queue: str, words: VerdictWords) -> str:
    """Return the verdict of a queue as a sentence about it: a headline."""
    if words.result in ("pass", "fail"):
        return f"{queue} {words.sentence[:1].lower()}{words.sentence[1:]}"
    return f"{queue}: {words.sentence}"


def word_runs(noun: str, runs: Sequence[JudgedRun]) -> VerdictWords:
    """Return the verdict of a study that has that of its runs together. ``noun``: what one is called; ``runs``: those that have a verdict."""
    if not runs:
        return VerdictWords(result="unknown", name="unknown", sentence=f"Unknown: no {noun} was completed.")
    bad = [run for run in runs if run.verdict != "pass"]
    if not bad:
        name = " or ".join(dict.fromkeys(map(_name_of, runs)))
        where = f"in all {len(runs)} {noun}s" if len(runs) > 1 else f"in the only {noun}"
        return VerdictWords(result="pass", name=name, sentence=f"{start_sentence(name)} {where}.")
    failed = [run for run in bad if run.verdict == "fail"]
    first = (failed or bad)[0]
    others = f", and unknown in {len(bad) - len(failed)}" if failed and len(bad) > len(failed) else ""
    where = f"in {len(failed or bad)} of {len(runs)} {noun}s{others}" if len(runs) > 1 else f"in the only {noun}"
    why = f"{where}, first in {noun} {first.number}: {first.reason}" if len(runs) > 1 else f"{where}: {first.reason}"
    return VerdictWords(
        result="fail" if failed else "unknown",
        name=_name_of(first),
        sentence=f"{start_sentence(_name_of(first))} {why}{'' if why.endswith('.') else '.'}",
    )


def _name_of(run: JudgedRun) -> str:
    return run.verdict_name or {"pass": "passed", "fail": "failed"}.get(run.verdict or "", "unknown")


def word_baseline(result: Result) -> VerdictWords:
    """Return what the comparison of a study with its baseline has shown."""
    name = _BASELINE_WORDS[result]
    return VerdictWords(result=result, name=name, sentence=f"{start_sentence(name)}.")


def _list_first(names: Sequence[str], count: int) -> str:
    return "; ".join([*names[:count], *([f"and {len(names) - count} more"] if len(names) > count else [])])


def start_sentence(text: str) -> str:
    """Return ``text`` with a capital letter."""
    return text[:1].upper() + text[1:]


def _list_required(verdict: Verdict, result: Result) -> list[Finding]:
    return [each for each in verdict.findings if each.check == Requirements.name and each.result == result]


def _describe_phase(record: RunRecord, phase: PhaseOutcome) -> str:
    what = _describe_effect(phase)
    recovery = _describe_recovery(phase.recovery)
    return f"While {describe_injections(record, phase)}, {what}{f'; {recovery}' if recovery else ''}."


def describe_injections(record: RunRecord, phase: PhaseOutcome) -> str:
    """Return what was wrong in a phase and for how long, to follow "while"."""
    injections = [one for one in record.injections if one.name in phase.injections]
    words = list(dict.fromkeys(_describe_injection(one) for one in injections))
    happened = " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else "a fault was active"
    lasted_s = phase.to_s - phase.from_s
    return f"{happened} for {lasted_s:.0f} s" if 1 <= lasted_s < float("inf") else happened


def _describe_injection(injection: InjectionRecord) -> str:
    if injection.category == "fault":
        fault = find_faults().get(injection.kind)
        on = "the primary server" if injection.on == "primary" else injection.on.replace("replication-", "the replication to ")
        words = fault.meanwhile if fault else "{kind} acted on {on}"
        is_plural = injection.on in ("workers", "producers")
        return words.format(on=on, were="were" if is_plural else "was", kind=injection.kind)
    where = "" if injection.on == "primary" else f" on {injection.on}"
    state = str(injection.evidence.get("state", ""))
    match injection.evidence.get("kind"):
        case "prepared":
            return f"one prepared transaction was left open{where}"
        case "slot":
            return f"one replication slot was left behind{where}"
        case _ if "idle" in state or state == "Sleep":
            return f"one transaction was idle{where}"
        case _:
            return f"{injection.kind} kept a transaction open{where}"


def _describe_effect(phase: PhaseOutcome) -> str:
    if phase.effect == "unknown":
        return f"it is not known how long jobs took: {phase.because}"
    before, took = (None if value is None else format_ms(value) for value in (phase.latency_before_ms, phase.latency_ms))
    if phase.effect == "unaffected":
        return f"jobs were done as quickly as before, 95 of 100 within {took} (before: {before})"
    parts = []
    if phase.effect == "stopped":
        parts.append(f"no job was completed for {phase.stopped_s} s" if phase.stopped_s else "every worker exited")
    if took is not None and before is not None and took != before:
        parts.append(f"95 of 100 jobs took up to {took} instead of {before}")
    if phase.waiting is not None and phase.waiting > (phase.waiting_before or 0):
        parts.append(f"{phase.waiting:,} {'piled up' if phase.effect == 'falling behind' else 'waited at most'}")
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part) if parts else phase.effect


def _describe_recovery(recovery: Recovery) -> str:
    match recovery.kind:
        case "at once":
            return "back to normal at once after it ended"
        case "after":
            return f"back to normal {recovery.seconds:.0f} s after it ended"
        case "not in":
            return f"not back to normal in the {recovery.seconds:.0f} s after it ended"
        case "needs help":
            seen = recovery.because or f"no job was completed in the {recovery.seconds:.0f} s after it ended"
            return f"{seen}, so it needs help"
        case "unknown":
            return f"whether it recovered is not known: {recovery.because}"
        case _:
            return ""


def _describe_safety(record: RunRecord, safety: Safety) -> list[str]:
    """Return sentences on lost, repeated, stranded and starved jobs."""
    parts = []
    if safety.lost.count:
        parts.append(f"{describe_jobs(safety.lost)} lost.")
    if safety.repeated.count:
        parts.append(f"{describe_jobs(safety.repeated)} re-executed with no failure that explains it.")
    if safety.stranded.count:
        parts.append(f"{describe_jobs(safety.stranded)} stranded with a worker that had died.")
    if safety.starved.count:
        parts.append(f"{describe_jobs(safety.starved)} never claimed although workers were idle.")
    if not parts and not safety.unknown:
        parts.append("Nothing lost, nothing repeated." if not safety.re_executed else "Nothing lost.")
    elif not safety.lost.count and "lost" not in safety.unknown:
        parts.append("Nothing lost.")
    if safety.unknown:
        parts.append(f"Not known: which jobs were {' or '.join(safety.unknown)}.")
    if safety.rescued and safety.rescued_within_s is not None:
        parts.append(
            f"{safety.rescued:,} {'job' if safety.rescued == 1 else 'jobs'} of workers that died went to another one, "
            f"after at most {safety.rescued_within_s:.1f} s."
        )
    elif safety.re_executed:
        promise = str(record.queue.promise).replace("_", " ")
        parts.append(f"{safety.re_executed:,} re-executed after a failure, which {promise} delivery permits.")
    if safety.awaiting.count and "stranded" not in safety.unknown:
        parts.append(f"{describe_awaiting(safety)}.")
    if safety.given_up:
        parts.append(f"{safety.given_up:,} used all their attempts.")
    return parts


def _describe_other_queries(queries: OtherQueries | None) -> list[str]:
    """Return a sentence on what the rest of an application felt; none if that was not measured."""
    if queries is None:
        return []
    before = "" if queries.before_ms is None else f" (before: {format_ms(queries.before_ms)})"
    failed = f"; {queries.failed:,} failed at first" if queries.failed else ""
    return [f"Other queries of the database: 95 of 100 within {format_ms(queries.meanwhile_ms)}{before}{failed}."]


def _describe_exited(outcome: Outcome) -> list[str]:
    if not outcome.exited:
        return []
    names = f"{', '.join(outcome.exited[:_IDS])}{', ...' if len(outcome.exited) > _IDS else ''}"
    if not outcome.gone:
        return [f"{names} exited unexpectedly, and came back."]
    left = f", and {outcome.left:,} {'job was' if outcome.left == 1 else 'jobs were'} left in the queue" if outcome.left else ""
    return [f"{names} exited unexpectedly{left}."]


def list_tiles(verdict: Verdict) -> list[OutcomeTile]:
    """Return the figures of the worst phase and of the whole run: latency, backlog, recovery, lost and repeated jobs; none without an outcome."""
    outcome = verdict.outcome
    if outcome is None:
        return []
    tiles = _list_tiles_of(outcome.worst) if outcome.worst else []
    safety = outcome.safety
    counts = {"lost": safety.lost.count, "repeated": safety.repeated.count, "stranded": safety.stranded.count}
    found = [
        f"{'?' if name in safety.unknown else f'{count:,}'} {name}"
        for name, count in counts.items()
        if count or name in safety.unknown
    ]
    return [
        *tiles,
        OutcomeTile(label="jobs lost, repeated or stranded", figure=", ".join(found) or "none", note="in the whole run"),
        *_list_tiles_of_other_queries(outcome.worst),
    ]


def _list_tiles_of(phase: PhaseOutcome) -> list[OutcomeTile]:
    between = f"{phase.baseline} → {phase.phase}" if phase.baseline else phase.phase
    latency = [_show(phase.latency_before_ms, format_ms), _show(phase.latency_ms, format_ms)]
    waiting = [_show(phase.waiting_before, format_value), _show(phase.waiting, format_value)]
    seconds = phase.recovery.seconds
    after = {"after": f"{seconds:.0f} s" if seconds is not None else "", "not in": f"not in {seconds or 0:.0f} s"}
    return [
        OutcomeTile(label="latency of 95 of 100 jobs, up to", figure=" → ".join(latency), note=f"{phase.effect}; {between}"),
        OutcomeTile(label="jobs waiting, most", figure=" → ".join(waiting), note=between),
        OutcomeTile(
            label="back to normal",
            figure=after.get(phase.recovery.kind, phase.recovery.kind),
            note=f"after the disturbance in {phase.phase} ended",
        ),
    ]


def _list_tiles_of_other_queries(phase: PhaseOutcome | None) -> list[OutcomeTile]:
    """Return what the rest of an application felt before, in and after a phase; none if that was not measured."""
    queries = phase.other_queries if phase else None
    if queries is None:
        return []
    times = {"before": queries.before_ms, "meanwhile": queries.meanwhile_ms, "after": queries.after_ms}
    known = {when: format_ms(value) for when, value in times.items() if value is not None}
    return [OutcomeTile(label="other queries, 95 of 100 within", figure=" → ".join(known.values()), note=", ".join(known))]


def _show(value: float | None, form: Callable[[float], str]) -> str:
    return "no data" if value is None else form(value)


def find_ending(record: RunRecord, verdict: Verdict) -> Ending | None:
    """Return which longrunner of the worst phase held the horizon and what ends it; none if none did, or if the queue was not affected.

    Another session that held it in a phase with a fault may be an effect of that fault: the attribution names it, and blames nobody.
    """
    worst = verdict.outcome.worst if verdict.outcome else None
    if worst is None or worst.effect in ("unaffected", "unknown"):
        return None
    held = [one for one in verdict.attribution.holders if one.from_s < worst.to_s and one.to_s > worst.from_s]
    stay = next((one for one in held if one.name in worst.injections), None)
    if stay is None:
        return None
    statement = ENGINES[record.scenario.database.engine].statement_to_end(stay.kind, stay.key)
    return Ending(sentence=_describe_stay(stay), statement=statement)


def _describe_stay(stay: HolderStay) -> str:
    what = {
        "backend": f"session {stay.key}",
        "slot": f"replication slot {stay.key}",
        "prepared": f"prepared transaction {stay.key}",
    }
    return (
        f"Who did it: {stay.name} ({what.get(stay.kind, stay.key)} on {stay.server}) kept old rows from being removed "
        f"from {max(0.0, stay.from_s):.0f} s to {stay.to_s:.0f} s."
    )


def find_help(record: RunRecord, verdict: Verdict) -> Help | None:
    """Return which variants of the scenario are meant against its problem; none if there are none, or if the queue was not affected."""
    worst = verdict.outcome.worst if verdict.outcome else None
    if worst is None or worst.effect in ("unaffected", "unknown"):
        return None
    names = _list_mitigations(record.scenario)
    if not names:
        return None
    file = argument_of(record.scenario.name, record.scenario.file)
    queue = list_changes(changes_of(record.scenario.changes, "queue"))
    others = " and others" if len(names) > _SHOWN_MITIGATIONS else ""
    measured = (
        " (docs/mitigations.md has what each did when it was measured)"
        if is_of_project(record.scenario.name, record.scenario.file)
        else ""
    )
    of_queue = ["--variants", ",".join(("control", *names))] if queue else []
    return Help(
        sentence=f"What may help: {', '.join(names[:_SHOWN_MITIGATIONS])}{others}{measured}. This compares them, one run after the other:",
        command=format_shell_command(["stallbench", "compare", file, *of_queue, *queue]),
    )


def _list_mitigations(scenario: Scenario) -> Sequence[str]:
    """Return the variants with a mitigation that this run's queue can use, other than the one that ran."""
    named = scenario.name if is_of_project(scenario.name, scenario.file) else scenario.file
    try:
        found = read_mitigations(find_scenario(named))
    except ScenarioError:  # the file of a run from elsewhere is not here, or has changed: then nothing is offered
        return []
    has_own_queue = bool(changes_of(scenario.changes, "queue"))
    return [name for name, changes_queue in found.items() if name != scenario.variant and not (has_own_queue and changes_queue)]
