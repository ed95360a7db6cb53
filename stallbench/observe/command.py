"""Carries `stallbench observe` out: one report, or a report that is updated, recorded and served to Prometheus as long as it is asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stallbench.errors import NotCarriedOutError
from stallbench.observe.observation_session import BETWEEN_READINGS_S, ObservationSession
from stallbench.observe.observer import Observation
from stallbench.observe.options import ObserveOptions
from stallbench.shell_command import format_shell_command
from stallbench.visible_text import say

if TYPE_CHECKING:
    from stallbench.observe.document import JsonLines
    from stallbench.observe.screen import ObserveScreen


def observe_once(options: ObserveOptions) -> None:
    """Print one report. Raises `NotCarriedOutError` if the server cannot be read."""
    session = ObservationSession(options)
    try:
        reads_again_s = time.monotonic() + BETWEEN_READINGS_S
        screen = _make_screen(options)  # what that needs is loaded while it waits
        time.sleep(max(0.0, reads_again_s - time.monotonic()))
        observation = session.read(reads_everything=True)
    finally:
        session.observer.close()
    if observation.gone:
        raise NotCarriedOutError(f"the connection to the server was lost: {observation.gone}")
    screen.print(observation)


def observe_continuously(options: ObserveOptions) -> Path | None:
    """Update the report until Ctrl-C, or for the time that was asked for. Returns the folder in which the observation was recorded, if it was.

    Raises `NotCarriedOutError` if the server cannot be read at first; later it is tried again. Raises `KeyboardInterrupt` if a recorded observation is
    interrupted before its time is over.
    """
    if options.is_recorded or options.exposure:
        from stallbench.observe.recorded import exposed, recorded
    session = ObservationSession(options)
    until_s = time.monotonic() + options.for_s if options.for_s is not None else float("inf")
    try:
        with ExitStack() as stack:
            record = stack.enter_context(recorded(session)) if options.is_recorded else None
            if options.exposure:
                stack.enter_context(exposed(session, record))
            show = stack.enter_context(_shown(session))
            session.continue_until(show, until_s)
            if session.load is not None or options.expect:
                # A count that is expensive was left out of the readings before this one: its last figure may be minutes old.
                session.read(reads_everything=True)
    except KeyboardInterrupt:
        if options.profile:
            say(f"interrupted: no profile was written to {options.profile}", to=sys.stderr)
        if options.is_recorded or options.profile:
            raise
        return None
    finally:
        session.observer.close()
    if session.load is not None and options.profile is not None:
        session.load.write(options.profile, every_s=options.every_s)
        words = ["stallbench", "run", options.profile]
        command, beside = format_shell_command(words), format_shell_command([*words, "--variant", "longtx"])
        say(f"the load was recorded; to repeat it: {command}; beside an idle transaction: {beside}")
    return record.folder.path if record else None


@contextmanager
def _shown(session: ObservationSession) -> Iterator[Callable[[Observation, float], None]]:
    """Yield what shows each reading and the pause after it: on the screen, in a history and to a webhook if there is one."""
    from stallbench.observe.screen import describe_pace

    with ExitStack() as stack:
        webhook = None
        if session.options.webhook is not None:
            from stallbench.observe.webhook import Webhook

            webhook = stack.enter_context(Webhook(session.options.webhook))
        history = None
        if session.options.history is not None:
            from stallbench.observe.document import describe_reading
            from stallbench.observe.history import HistoryWriter

            history = stack.enter_context(HistoryWriter(session.options.history))
        screen = _make_screen(session.options)
        stack.enter_context(screen)
        if screen.is_redrawn:
            screen.show(session.first, "rates follow with the second reading")
        if webhook is not None:
            webhook.says_at_end = screen.is_redrawn

        def show(observation: Observation, pause_s: float) -> None:
            screen.show(observation, describe_pace(pause_s))
            if history is not None:
                history.append(describe_reading(observation, shows_all=True))
            if webhook is not None:
                webhook.report(observation)

        yield show


def _make_screen(options: ObserveOptions) -> ObserveScreen | JsonLines:
    if options.as_json:
        from stallbench.observe.document import JsonLines

        return JsonLines(shows_all=options.shows_all)
    from stallbench.observe.screen import ObserveScreen

    return ObserveScreen(shows_all=options.shows_all)
