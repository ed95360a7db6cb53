"""``python -m stallbench.run.sampling [document.json]``: runs the collectors at the run's sampling interval. Each writes its own file."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from stallbench.engines.collectors.document import CollectorsDocument
from stallbench.engines.role_errors import run_role
from stallbench.processes.exposure import make_sample_figures, serve
from stallbench.processes.role import CannotContinueError, Stop, read_document, send_message
from stallbench.processes.role_arguments import role_parser
from stallbench.run.sampling import collectors_for
from stallbench.run.sampling.own_cost import OwnCost
from stallbench.run.sampling.sampler import Sampler
from stallbench.waiting import wait_until

_FIRST_SAMPLES_S = 20.0
_LOOK_EVERY_S = 0.05
_LAST_SAMPLES_S = 5.0
_POLL_EVERY_S = 1.0
_SPREAD_S = 1.0


def main() -> None:
    """Sample until asked to stop, then take one last sample.

    Raises `CannotContinueError` when one of the collectors has not had a whole sample within 20 s of the start, or the records cannot
    be written.
    """
    does = "Sample the servers and the host of a run."
    document = read_document(
        CollectorsDocument, role_parser("stallbench.run.sampling", does, CollectorsDocument).parse_args().document
    )
    stop = Stop()
    samples = document.run_folder / "samples"
    figures = make_sample_figures(document.expose, document.interval_s)
    observe = figures.observe if figures else None
    with OwnCost(samples, observe) as own_cost:
        found = collectors_for(document.primary.endpoint.engine)
        if unknown := sorted(set(document.only) - set(found)):
            raise CannotContinueError(f"only: there is no collector {', '.join(unknown)}; expected {', '.join(found)}")
        collectors = [kind(document) for name, kind in found.items() if not document.only or name in document.only]
        start_s = time.monotonic()
        # Sampling times are spread over the interval, so that the collectors do not query the servers all at once.
        spread_s = min(document.interval_s, _SPREAD_S) / len(collectors)
        samplers = [
            Sampler(
                collector,
                samples,
                own_cost,
                interval_s=document.interval_s,
                start_s=start_s + index * spread_s,
                stop=stop,
                observe=observe,
            )
            for index, collector in enumerate(collectors)
        ]
        for sampler in samplers:
            sampler.start()
        try:
            _wait_for_first_samples(samplers, stop)
            send_message(ready=serve(document.expose, figures))
            while not stop.wait(_POLL_EVERY_S):
                for sampler in samplers:
                    sampler.break_off_if_hanging(time.monotonic())
        finally:
            stop.event.set()
            _end(samplers)
        for sampler in samplers:
            if sampler.fatal is not None:
                raise CannotContinueError(sampler.fatal.strerror)


def _wait_for_first_samples(samplers: Sequence[Sampler], stop: Stop) -> None:
    def list_missing() -> list[str]:
        return [f"{sampler.name} ({sampler.why})" for sampler in samplers if not sampler.measured_once.is_set()]

    if not wait_until(lambda: stop.asked or not list_missing(), within_s=_FIRST_SAMPLES_S, every_s=_LOOK_EVERY_S):
        raise CannotContinueError(f"no whole sample within {_FIRST_SAMPLES_S:.0f} s of {', '.join(list_missing())}")


def _end(samplers: Sequence[Sampler]) -> None:
    until_s = time.monotonic() + _LAST_SAMPLES_S
    for sampler in samplers:
        if not sampler.end(max(0.0, until_s - time.monotonic())):
            print(f"{sampler.name}: did not return from its last sample", file=sys.stderr)


if __name__ == "__main__":
    run_role(main)
