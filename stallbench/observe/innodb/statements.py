"""Time of the claim statement now and earlier on MariaDB or MySQL: the statement digests of the performance schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stallbench.collectors.innodb_statements import DigestCounts, read_digest_texts
from stallbench.collectors.statements import StatementCounts
from stallbench.observe.formatting import format_age
from stallbench.observe.postgres.statements import StatementsSubject
from stallbench.observe.subject import Look, Unseen


class InnoDBStatementsSubject(StatementsSubject):
    """Compares the digests' counts between looks; the server counts no buffers."""

    what = "times of statements"

    def __init__(self) -> None:
        """Know no earlier counts."""
        super().__init__()
        self._digests = DigestCounts()

    def read_counts(self, look: Look) -> list[StatementCounts] | None:
        """Return the counts of every statement; none if the performance schema is off."""
        return self._digests.read(look.server)

    def read_texts(self, look: Look, statements: Sequence[int | str]) -> Iterable[tuple[int | str, str | None]]:
        """Return the text of each statement."""
        return read_digest_texts(look.server, statements)

    def describe_missing(self, look: Look) -> tuple[Unseen, ...]:
        """Return nothing: `InnoDBRightsSubject` says that the performance schema is off."""
        return ()

    def describe_hidden(self, look: Look) -> tuple[Unseen, ...]:
        """Return nothing: who may read the digests sees those of all users."""
        return ()

    def describe_outdated(self, look: Look) -> tuple[Unseen, ...]:
        """Return nothing: the performance schema is as new as its server."""
        return ()

    def describe_reset(self, look: Look) -> str:
        """Return when the counts began."""
        return f"since the server was started, {format_age(look.known.up_s)} ago, until this observation began"
