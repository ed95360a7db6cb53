"""Carries `stallbench observe` out: one report, or a report that is updated until Ctrl-C."""

from __future__ import annotations

import time

from stallbench.errors import NotCarriedOutError
from stallbench.observe.observer import Observation, Observer, pause_after
from stallbench.observe.options import ObserveOptions
from stallbench.observe.screen import ObserveScreen, describe_pace

_BETWEEN_LOOKS_S = 2.0
"""Between the two looks of one report: rates and stuck clients need two."""


def observe_once(options: ObserveOptions) -> None:
    """Print one report. Raises `NotCarriedOutError` if the server cannot be read."""
    observer = options.make_observer()
    try:
        _require_read(observer.look(), options)
        time.sleep(_BETWEEN_LOOKS_S)
        observation = _require_read(observer.look(reads_everything=True), options)
    finally:
        observer.close()
    ObserveScreen().print(observation)


def observe_continuously(options: ObserveOptions) -> None:
    """Update the report until Ctrl-C. Raises `NotCarriedOutError` if the server cannot be read at first; later it is tried again."""
    observer = options.make_observer()
    try:
        first = _require_read(observer.look(), options)
        with ObserveScreen() as screen:
            if screen.is_redrawn:
                screen.show(first, "rates follow with the second look")
            pause_s = _BETWEEN_LOOKS_S
            while True:
                time.sleep(pause_s)
                pause_s = _look_and_show(observer, screen, options.every_s)
    except KeyboardInterrupt:
        return
    finally:
        observer.close()


def _look_and_show(observer: Observer, screen: ObserveScreen, every_s: float) -> float:
    """Return how long to wait before the next look."""
    cpu_before_s = time.process_time()
    observation = observer.look()
    screen.show(observation, describe_pace(pause_after(observation.spent_s, 0.0, every_s)))
    return pause_after(observation.spent_s, time.process_time() - cpu_before_s, every_s)


def _require_read(observation: Observation, options: ObserveOptions) -> Observation:
    """Return it. Raises `NotCarriedOutError` if the server could not be read."""
    if observation.gone:
        endpoint = options.servers.primary
        user = f"{endpoint.user}@" if endpoint.user else ""
        address = f"{user}{endpoint.host or 'local socket'}:{endpoint.port}/{endpoint.database}"
        raise NotCarriedOutError(f"{address} cannot be read: {observation.gone}")
    return observation
