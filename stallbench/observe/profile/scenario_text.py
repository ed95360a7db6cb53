"""Writes a load as the text of a scenario. Every word of it is in this file or a name of the bench's own queues; the rest is numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from stallbench.base.duration import format_duration
from stallbench.engines import DEFAULT_ENGINE
from stallbench.observe.family import find_family
from stallbench.observe.profile.estimate import Load
from stallbench.observe.profile.levels import SHORTEST_S, Span
from stallbench.observe.profile.work_times import WorkTimes, find_work_times
from stallbench.queues import find_queue
from stallbench.queues.load_bounds import LEAST_PAYLOAD_BYTES, MOST_BACKLOG, MOST_PAYLOAD_BYTES, MOST_WORK_S, MOST_WORKERS
from stallbench.queues.queue import OptionRole

_LONGEST_S = 86_000
"""A scenario lasts a day at most, with its warm-up."""
_RATE_OF_A_PRODUCER = 500.0
_WORK_TIMES_A_CLAIM = 3
"""A claim lasts for at least so many mean work times, so that most jobs are completed before it expires."""
_LONGEST_TIMES_A_CLAIM = 2
"""And for so many of the longest ones, which would otherwise be re-executed."""
_OTHER_CONNECTIONS = 60
"""At most, besides those of workers and producers: bursts, collectors, maintenance, the server's reserve."""
_DEFAULT_CONNECTIONS = 100
_QUIET = 0.01
"""Of the mean rate: the lowest level, because the bench's producers have a rate above 0."""
_LOST_BY_ROUNDING = 0.005
"""Of a rate, at most, if it is written with three digits: no burst makes up for it."""
_NEVER_SEEN = (
    "Not reproduced, because it was not read: priorities, jobs that are scheduled for later, retries and failures, the pause between two\n"
    "claims, settings of the server, its hardware, and other load on it."
)
_WARM_UP = ("[[phases]]", 'name = "warmup"', 'duration = "3s"', "measured = false", "")


def write_scenario(load: Load, queue: Mapping[str, str], *, server: str, engine: str, every_s: float) -> str:
    """Return the text. ``queue``: the bench's queue that stands in. ``server``: product and major version of the
    observed server. ``engine``: its engine.
    """
    levels = _round_levels(load.levels)
    base = _round(max(min(rate for _, _, rate in levels), _QUIET * load.rate))
    end_s = levels[-1][0] + levels[-1][1]
    times = find_work_times(load, phase_s=end_s)
    workers = min(load.workers, MOST_WORKERS)
    backlog = _find_backlog(load)
    payload = load.sample.payload_bytes if load.sample else None
    options: dict[str, str | int] = dict(queue)
    options |= _lengthen_expiry(
        queue["kind"], max(_WORK_TIMES_A_CLAIM * min(load.work_s, MOST_WORK_S), _LONGEST_TIMES_A_CLAIM * _longer_s(times))
    )
    producers = min(64, math.ceil(base / _RATE_OF_A_PRODUCER))
    connections = workers + producers + _OTHER_CONNECTIONS
    lines = [
        'summary = "The load of a live queue, as `stallbench observe --record-profile` recorded it."',
        "",
        *_comment(
            f"Recorded on {server} in {load.readings} readings, one every {every_s:g} s or less often. It contains no name and no payload.",
            *_NEVER_SEEN.splitlines(),
            *(
                [f"{load.missed_s:.0f} s of the observation are left out: the queue could not be read."]
                if load.missed_s > 1
                else []
            ),
        ),
        "",
        *_write_database(engine, connections),
        "[queue]",
        *_comment("A queue of the bench that claims and completes in a similar way; it stands in for the observed one."),
        *(f"{key} = {json.dumps(value)}" for key, value in options.items()),
        "",
        "[producers]",
        *_comment(*_describe_rate(load)),
        f"rate = {base:g}",
        *([f"count = {producers}"] if producers > 1 else []),
        *_comment(*_describe_backlog(load, backlog)),
        f"backlog = {backlog}",
        *_comment(*_describe_payload(load)),
        *(
            [f"payload_bytes = {min(max(round(payload), LEAST_PAYLOAD_BYTES), MOST_PAYLOAD_BYTES)}"]
            if payload is not None
            else []
        ),
        *_comment(*_describe_kinds(load)),
        "",
        "[workers]",
        *_comment(*_describe_workers(load)),
        f"count = {workers}",
        *_comment(*_describe_work(load), *_describe_work_times(times)),
        f'work = "{_format_time(times.usual_s)}"',
        "",
        *(_WARM_UP if not backlog else ()),  # which would work a part of the backlog off
        "[[phases]]",
        'name = "load"',
        *_comment(*_describe_levels(levels, base)),
        f'duration = "{end_s}s"',
        *_list_faults([*_list_bursts(levels, base), *_list_longer_jobs(times)]),
        "",
        "[comparison]",
        'metric = "latency_ms.p95"',
        'phase = "load"',
        'better = "lower"',
        "",
        find_family(engine).variants.rstrip("\n"),
        "",
    ]
    return "\n".join(lines)


def _write_database(engine: str, connections: int) -> Iterator[str]:
    lines = [f'engine = "{engine}"'] if engine != DEFAULT_ENGINE else []
    lines += [f"settings = {{ max_connections = {connections} }}"] if connections > _DEFAULT_CONNECTIONS else []
    if lines:
        yield "\n".join(["[database]", *lines, ""])


def _lengthen_expiry(kind: str, least_s: float) -> dict[str, int]:
    """Return the option by which claims of a queue last ``least_s``; none if they do by default, or if they do not expire."""
    defaults = find_queue(kind).options_type()
    key, expiry_s = defaults.find_option(OptionRole.EXPIRY), defaults.value_of(OptionRole.EXPIRY)
    return {key: math.ceil(least_s)} if key is not None and expiry_s is not None and expiry_s < least_s else {}


def _round_levels(levels: Sequence[Span]) -> list[tuple[int, int, float]]:
    """Return start and length in whole seconds, which sum without an error, and the rate of each level."""
    ends = [min(round(end_s), _LONGEST_S) for end_s in accumulate(level.length_s for level in levels)]
    starts = [0, *ends[:-1]]
    return [(start, end - start, level.rate) for start, end, level in zip(starts, ends, levels, strict=True) if end > start]


def _list_bursts(levels: Sequence[tuple[int, int, float]], base: float) -> Iterator[str]:
    for start_s, length_s, rate in levels:
        if (more := _round(rate - base)) > _LOST_BY_ROUNDING * base:
            for_s = f', for = "{length_s}s"' if (start_s, length_s, rate) != levels[-1] else ""
            yield f'kind = "burst", on = "producers", rate = {more:g}, after = "{start_s}s"{for_s}'


def _list_longer_jobs(times: WorkTimes) -> Iterator[str]:
    for group in times.longer:
        yield f'kind = "long_jobs", on = "workers", takes = "{_format_time(group.takes_s)}", share = {_round(group.share):g}'


def _list_faults(faults: Sequence[str]) -> list[str]:
    return ["faults = [", *(f"  {{ {fault} }}," for fault in faults), "]"] if faults else []


def _longer_s(times: WorkTimes) -> float:
    return times.longest_s if times.longer else 0.0


def _describe_rate(load: Load) -> list[str]:
    lines = [
        f"Jobs per second, from the inserts that the server counted: mean {_show(load.rate)}, and in {SHORTEST_S:g} s or a longer time between "
        f"readings {_show(load.lowest_rate)} to {_show(load.peak_rate)}.",
        "Inserts that were rolled back, and jobs that are inserted again for a retry, count too.",
    ]
    if load.completed_rate is not None:
        lines.append(f"{_show(load.completed_rate)} jobs per second were completed: those that came less those that stayed.")
    return lines


def _find_backlog(load: Load) -> int:
    """Return the jobs before the first phase; none if they are less than a second of load, as in a queue that keeps up."""
    backlog = load.backlog or 0
    return min(backlog, MOST_BACKLOG) if backlog > max(load.rate, 10) else 0


def _describe_backlog(load: Load, backlog: int) -> list[str]:
    if load.backlog is None:
        return ["How many jobs waited at the beginning was not seen: more than a count's limit, or the count was refused."]
    lines = [f"{load.backlog} jobs waited at the first reading" + ("." if backlog else ", less than a second of load.")]
    oldest = f"; the oldest waited for {_format_time(load.oldest_s)}" if load.oldest_s and load.oldest_s > 0 else ""
    return [*lines, f"At most {load.deepest} waited at a reading{oldest}."]


def _describe_payload(load: Load) -> list[str]:
    sample = load.sample
    if sample is None or sample.payload_bytes is None:
        return ["The size of the arguments was not seen: payload_bytes has its default."]
    lines = [
        f"Size of the arguments as stored (compressed, if they were): mean of {sample.jobs} sampled rows; 95 % have at most "
        f"{sample.payload_p95_bytes or 0:.0f} bytes, the largest {sample.payload_max_bytes or 0:.0f}.",
        "A row can be in several samples. Of a queue that deletes its jobs, those that wait or run longest are sampled most often.",
    ]
    if not LEAST_PAYLOAD_BYTES <= sample.payload_bytes <= MOST_PAYLOAD_BYTES:
        lines.append(
            f"The mean was {sample.payload_bytes:.0f} bytes; the bench has {LEAST_PAYLOAD_BYTES} to {MOST_PAYLOAD_BYTES}."
        )
    return lines


def _describe_kinds(load: Load) -> Iterator[str]:
    if not load.kinds:
        yield "The mix of jobs was not seen."
        return
    yield "Kinds of jobs among these rows. The bench's jobs are all alike, so which kind has which size and time is not reproduced:"
    for number, kind in enumerate(load.kinds, 1):
        size = f", {kind.payload_bytes:.0f} bytes" if kind.payload_bytes is not None else ""
        work = f", work {_format_time(kind.work_s)}" if kind.work_s is not None else ""
        yield f"  kind-{number}: {kind.share:.0%}{size}{work}"
    if load.more_kinds:
        yield f"  and {load.more_kinds} more"


def _describe_workers(load: Load) -> Iterator[str]:
    if load.workers_are_sessions:
        yield "Sessions that have claimed jobs: the most that were open at a reading."
    else:
        yield "The most jobs that ran at once at a reading. There are more workers if these were never all busy."
    if load.workers > MOST_WORKERS:
        yield f"There were {load.workers}; the bench has at most {MOST_WORKERS}."
    if load.workers < load.rate * load.work_s:
        yield f"At the mean rate and this work time, {math.ceil(load.rate * load.work_s)} workers would be needed."


def _describe_work(load: Load) -> Iterator[str]:
    sample = load.sample
    if load.work_is_measured and sample:
        yield (
            f"Mean of the work times that {sample.finished} sampled rows have: half took at most {_format_time(sample.work_p50_s)}, 95 % at most "
            f"{_format_time(sample.work_p95_s)}."
        )
    else:
        yield (
            f"By Little's law: {_show(load.running or 0)} running jobs at a reading on average, divided by the completed jobs per second. "
            "It includes the claim's and the completion's time."
        )
    if load.work_s > MOST_WORK_S:
        yield f"It was {load.work_s:.0f} s; the bench has at most {MOST_WORK_S:.0f} s."


def _describe_work_times(times: WorkTimes) -> Iterator[str]:
    if not times.longer:
        yield "Each job takes the mean; how much the times differ is not reproduced."
        return
    shares = " and ".join(f"{group.share:.1%}" for group in times.longer)
    yield (
        f"The fault long_jobs lets {shares} of the jobs take longer than this, drawn at random. All jobs together have the mean above, and 95 % of "
        f"them take at most {_format_time(times.longer[0].takes_s)}."
    )


def _describe_levels(levels: Sequence[tuple[int, int, float]], base: float) -> Iterator[str]:
    if len(levels) == 1:
        yield "The rate did not change by more than chance explains."
    else:
        yield "The rate changed. Each burst adds to producers.rate for a time; shorter peaks are part of their level's mean."
    if min(rate for _, _, rate in levels) < 0.99 * base:
        yield f"The bench's producers cannot pause: in the quiet levels they enqueue {base:g} jobs per second."


def _comment(*lines: str) -> list[str]:
    return [f"# {line}" for line in lines]


def _round(number: float) -> float:
    return float(f"{number:.3g}")


def _show(number: float) -> str:
    return f"{_round(number):g}"


def _format_time(seconds: float | None) -> str:
    return "?" if seconds is None else format_duration(_round(max(seconds, 0.0)))
