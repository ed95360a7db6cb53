"""Time of the claim statement now and earlier on MariaDB or MySQL: the statement digests of the performance schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stallbench.engines.collectors.statement_counts import StatementCounts
from stallbench.engines.innodb.collectors.statements import DigestCounts, read_digest_texts
from stallbench.engines.innodb.literals import LITERALS
from stallbench.observe.diagnostic import NotVisible, Reading, Section
from stallbench.observe.formatting import format_age
from stallbench.observe.innodb.own_statements import Signature, sign
from stallbench.observe.postgres.statements import StatementsDiagnostic
from stallbench.observe.server_time import MARK


class InnoDBStatementsDiagnostic(StatementsDiagnostic):
    """Compares the digests' counts between readings; the server counts no buffers."""

    literals = LITERALS

    what = "times of statements"

    def __init__(self) -> None:
        """Know no earlier counts."""
        super().__init__()
        self._digests = DigestCounts()
        self._signatures: dict[int | str, Signature] = {}
        """Of the statements that are not known to be the observation's."""

    def read(self, reading: Reading) -> Section:
        """Return what the statements took. Queries that this session has executed since the last reading are its own from now on."""
        for name in [name for name, signature in self._signatures.items() if signature in reading.server.signatures]:
            del self._signatures[name]
            self._texts[name] = f"{MARK} {self._texts[name]}"
            if name in self._last:
                self._own_ms += self._last[name].total_ms
        return super().read(reading)

    def read_counts(self, reading: Reading) -> list[StatementCounts] | None:
        """Return the counts of every statement; none if the performance schema is off."""
        return self._digests.read(reading.server)

    def read_texts(self, reading: Reading, statements: Sequence[int | str]) -> Iterable[tuple[int | str, str | None]]:
        """Return the text of each statement; that of the observation's own begins with `MARK`."""
        for name, text in read_digest_texts(reading.server, statements):
            signature = sign(text or "")
            if signature is None or signature not in reading.server.signatures:
                if signature is not None:
                    self._signatures[name] = signature
                yield name, text
            else:
                yield name, f"{MARK} {text}"

    def describe_missing(self, reading: Reading) -> tuple[NotVisible, ...]:
        """Return nothing: `InnoDBRightsDiagnostic` says that the performance schema is off."""
        return ()

    def describe_hidden(self, reading: Reading) -> tuple[NotVisible, ...]:
        """Return nothing: who may read the digests sees those of all users."""
        return ()

    def describe_outdated(self, reading: Reading) -> tuple[NotVisible, ...]:
        """Return nothing: the performance schema is as new as its server."""
        return ()

    def describe_reset(self, reading: Reading) -> str:
        """Return when the counts began."""
        return f"since the server was started, {format_age(reading.state.up_s)} ago, until this observation began"
