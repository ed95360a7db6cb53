"""A longrunner as an injection: a separate process, and what the servers report about it.

The longrunner's own report that it holds the horizon is not enough: it is verified only when the server names it as a holder.
"""

from __future__ import annotations

from stallbench.engines import ENGINES, driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.injection.choices import LongrunnerChoice
from stallbench.injection.context import InjectionContext
from stallbench.injection.injection import Injection
from stallbench.processes.process import Process
from stallbench.processes.role_command import role_command
from stallbench.records.injections import Evidence, InjectionRecord
from stallbench.servers.join import ExternalServerControl
from stallbench.waiting import wait_until

_VERIFY_S = 15.0
"""How long a longrunner may take until the server names it as a holder; a replica's feedback needs a few seconds."""
_END_S = 10.0
_COMMAND = tuple(role_command("longrunners"))
_BETWEEN_QUERIES_S = 3.0


class LongrunnerInjection(Injection):
    """One process of ``longrunners``."""

    def __init__(
        self, name: str, choice: LongrunnerChoice, *, phase: str, phase_planned_start_s: float, context: InjectionContext
    ) -> None:
        """Plan the longrunner that a scenario chooses."""
        super().__init__(
            InjectionRecord(
                name=name,
                category="longrunner",
                kind=choice.kind,
                on=choice.on,
                phase=phase,
                options=choice.options,
                planned_start_s=phase_planned_start_s,
                may_be_ended=choice.may_be_ended,
            )
        )
        self._context = context
        self._server = context.cluster.server(choice.on)
        self._log = context.logs / f"{name}.log"
        self._document = {
            "name": name,
            "kind": choice.kind,
            "on": choice.on,
            "endpoint": self._server.proxied.with_password(),
            "options": choice.options,
        }
        self._is_on_external_server = isinstance(self._server.control, ExternalServerControl)
        self._process: Process | None = None
        self._holder: Evidence = {}
        """What holds the horizon, as the longrunner reports it, and later as the server reports it."""

    def describe_effect(self) -> str:
        """Say that the server confirms it."""
        return "the server names it as a holder"

    def begin(self) -> None:
        """Start the process. On an external server, first record how to release what it holds there."""
        if self._is_on_external_server:
            self._context.journal.record_longrunner({**self._document, "endpoint": self._server.direct.with_password()})
        self._process = self._context.processes.start(
            self.record.name, "longrunner", _COMMAND, document=self._document, log=self._log, ready=True
        )

    def verify(self) -> Evidence:
        """Wait until the process is ready and the server names it as a holder."""
        assert self._process is not None
        process = self._process
        self._holder = dict(process.wait_ready(_VERIFY_S).get("holder", {}))
        wait_until(lambda: self._find_on_server() or process.poll() is not None, within_s=_VERIFY_S)
        found = self._find_on_server()
        if found is None:
            raise NotCarriedOutError(
                f"it reported that it holds {self._holder}, but the server did not name it within {_VERIFY_S:.0f} s; see {self._log}"
            )
        self._holder |= found
        return self._holder

    def why_inactive(self) -> str | None:
        """Ask the process and the server."""
        assert self._process is not None
        if self._process.poll() is not None:
            lost = next((str(message["lost"]) for message in self._process.messages() if "lost" in message), None)
            return lost or f"its process {self._process.describe_end()}"
        # With a concurrency limit, overlapping readers hold nothing between two queries.
        return None if wait_until(self._find_on_server, within_s=_BETWEEN_QUERIES_S) else "the server no longer names it"

    def end(self) -> None:
        """Stop the process; if it did not end cleanly, remove what it left on the server."""
        if self._process is None:
            return
        self._process.stop(_END_S)
        if self._process.exit_code != 0:
            self._context.processes.run_to_end(
                f"{self.record.name}-release",
                _COMMAND,
                document={**self._document, "release": True},
                log=self._log,
                within_s=_END_S,
            )

    def verify_gone(self) -> Evidence:
        """Wait until the server no longer names it."""
        if not wait_until(lambda: self._find_on_server() is None, within_s=_END_S):
            raise NotCarriedOutError(f"its server still names it {_END_S:.0f} s after it was ended")
        if self._is_on_external_server:
            self._context.journal.forget_longrunner(self.record.name)
        return {}

    def _find_on_server(self) -> Evidence | None:
        """Return what the servers say of the longrunner, or nothing if they do not name it."""
        driver = driver_of(self._server.direct.engine)
        servers = {server.name: server.direct for server in self._context.cluster.running_by_role}
        try:
            return ENGINES[self._server.direct.engine].find_longrunner(servers, self.record.on, self.record.name, self._holder)
        except driver.errors as error:
            raise NotCarriedOutError(f"the servers could not be asked for it: {driver.describe(error)}") from error
