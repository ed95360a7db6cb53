"""The kind of an error, found by its code, whatever the engine: a run may have two engines, and its tables have codes only.

A code is what `Driver.code` returns: an SQLSTATE (PostgreSQL), an error number (MariaDB, MySQL, Aerospike), a name (SQLite), or the name of the driver's
class if the engine gives no code. The codes of different engines do not contradict each other, so a code identifies the kind.
"""

from __future__ import annotations

from stallbench.engines import ENGINES
from stallbench.engines.error_kinds import CODES_OF_OTHER_PROCESSES, CONNECT, ErrorKind

_TABLES = (*(engine.error_codes for engine in ENGINES.values()), CODES_OF_OTHER_PROCESSES)
_KINDS = {code: kind for table in _TABLES for kind, codes in table.items() for code in codes}

TOO_MANY_CONNECTIONS = frozenset[str]().union(*(engine.too_many_connections for engine in ENGINES.values()))
"""See `Engine.too_many_connections`."""


def codes_of(kind: ErrorKind) -> frozenset[str]:
    """Return every code of a kind of errors. Of `ErrorKind.CONNECTION_LOST` they are those of operations other than `CONNECT`."""
    return frozenset(code for code, found in _KINDS.items() if found is kind)


def find_error_kind(code: str, operation: str) -> ErrorKind | None:
    """Return the kind of an error by its ``code`` and the ``operation`` that raised it; none if the code is not known.

    A driver has one class for a connection that breaks and for one that cannot be opened; the operation distinguishes the two.
    """
    kind = _KINDS.get(code)
    return ErrorKind.CANNOT_CONNECT if kind is ErrorKind.CONNECTION_LOST and operation == CONNECT else kind
