"""`stallbench limit`: finds the highest rate that a queue sustains."""

from __future__ import annotations

from typing import Annotated

import typer

from stallbench.commands.endings import conclude_study_and_exit
from stallbench.commands.options import (
    AgainstOption,
    ContinueOption,
    RunsOption,
    SetOption,
    ToleranceOption,
    VariantOption,
    find_against,
    find_study_to_continue,
    require_no_options,
)
from stallbench.errors import BadInputError
from stallbench.queues.load_bounds import MOST_RATE
from stallbench.run.folder import RUNS

_SLO, _PROBE, _PRECISION = "latency_ms.p95 < 1s", "15s", 0.1


def limit(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="A name from `stallbench list`, or a path. Leave it out with --continue."),
    ] = None,
    slo: Annotated[
        str,
        typer.Option(
            "--slo",
            metavar="BOUND",
            help='The bound that a sustained rate meets: a metric of docs/measures.md, and its limit, like "latency_ms.p95 < 1s".',
        ),
    ] = _SLO,
    variant: VariantOption = None,
    set_: SetOption = None,
    horizon: Annotated[
        str | None,
        typer.Option(
            "--horizon",
            metavar="free|held",
            help="Search only with the horizon free, or only while the scenario's longrunners hold it. Default: both, if the scenario has a longrunner.",
        ),
    ] = None,
    probe: Annotated[
        str,
        typer.Option(
            "--probe",
            metavar="TIME",
            help="The length of the measured phase of each run. The horizon is held during the whole phase.",
        ),
    ] = _PROBE,
    within: Annotated[
        str,
        typer.Option(
            "--within", metavar="TIME", help="The time limit of the command. A run that would exceed it is not started."
        ),
    ] = "10m",
    precision: Annotated[
        float,
        typer.Option(
            "--precision", metavar="SHARE", min=0.01, max=1, help="How far apart the ends of the interval may be: 0.1 is 10 %."
        ),
    ] = _PRECISION,
    start: Annotated[
        float | None,
        typer.Option(
            "--start",
            metavar="RATE",
            min=1,
            max=MOST_RATE,
            help="The first rate. Default: half of the capacity, which is measured first; with --against that of the baseline.",
        ),
    ] = None,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm/--no-confirm",
            help="Whether both ends of the interval are run once more, to check that the results are the same.",
        ),
    ] = True,
    against: AgainstOption = None,
    tolerance: ToleranceOption = None,
    continue_: ContinueOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Find the highest rate that a queue sustains, and which resource is exhausted first.

    Each rate is a run of its own: a ramp finds a rate that is sustained and one that is not, a bisection narrows the interval, and both ends are
    run once more. A rate is sustained if the bound is met, the queue is not saturated at the end, and at least 95 % of the jobs
    could be enqueued.

    A search that was interrupted, or whose time ended, is continued with --continue, for the time of --within.

    With --against the highest sustained rate is compared with that of an earlier search.

    Exit codes: 0 each limit has a lower and an upper end, 1 an end was not found in time, or there is a regression (--against), 2 bad input,
    3 a run could not be carried out, 130 interrupted.

    For example:

        stallbench limit longtx --slo "latency_ms.p95 < 1s"
        stallbench limit longtx --variant skip_locked --horizon held --probe 60s --within 20m
        stallbench limit longtx --set queue.kind=library:river --set database.version=18
        stallbench limit longtx --horizon held --against limit.json
        stallbench limit --continue 20261121T031258Z-limit-longtx --within 20m
    """
    from stallbench.studies.limit.kind import KIND
    from stallbench.studies.limit.limit import continue_search, find_limits, plan_limit
    from stallbench.studies.limit.probes import read_horizon
    from stallbench.studies.limit.record import LimitFolder
    from stallbench.studies.limit.slo import parse_slo

    within_s = _read_duration_s("--within", within, least_s=1)
    if continue_ is not None:
        given: dict[str, object] = {
            "SCENARIO": scenario,
            "--variant": variant,
            "--set": set_ or None,
            "--horizon": horizon,
            "--start": start,
        }
        given |= {"--against": against, "--tolerance": tolerance or None}
        with_defaults = {"--slo": (slo, _SLO), "--probe": (probe, _PROBE), "--precision": (precision, _PRECISION)}
        given |= {option: value for option, (value, default) in with_defaults.items() if value != default}
        given |= {} if confirm else {"--no-confirm": True}
        require_no_options("--continue takes the settings of the earlier search, except for --within", given)
        folder = LimitFolder(find_study_to_continue(continue_, KIND, runs))
        conclude_study_and_exit(folder.path, continue_search(folder, within_s, print))
    if scenario is None:
        raise BadInputError("limit needs a SCENARIO, like longtx; only --continue works without one")
    plan = plan_limit(
        scenario,
        slo=parse_slo(slo),
        variant=variant,
        overrides=set_ or [],
        horizon=read_horizon(horizon),
        duration_s=_read_duration_s("--probe", probe, least_s=5),
        within_s=within_s,
        precision=precision,
        confirms=confirm,
        start_rate=start,
        against=find_against(against, tolerance, runs),
    )
    folder, record = find_limits(plan, runs, print)
    conclude_study_and_exit(folder.path, record)


def _read_duration_s(option: str, text: str, *, least_s: float) -> float:
    from stallbench.base.duration import parse_duration_s

    try:
        duration_s = parse_duration_s(text)
    except ValueError as error:
        raise BadInputError(f'{option} is "{text}"; {error}') from error
    if not least_s <= duration_s <= 86_400:
        raise BadInputError(f'{option} is "{text}"; expected {least_s:g}s to 24h')
    return duration_s
