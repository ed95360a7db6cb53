"""What a MariaDB or MySQL replica says of itself, in one wording for all of them."""

from __future__ import annotations

from typing import Any


def read_replica_status(cursor: Any) -> dict[str, Any]:
    """Return ``SHOW REPLICA STATUS`` by names in small letters, with ``replica`` for ``slave`` and ``source`` for ``master``.

    Empty if the server follows nobody.
    """
    cursor.execute("SHOW REPLICA STATUS")
    row = cursor.fetchone()
    if row is None:
        return {}
    names = [column[0].lower().replace("slave", "replica").replace("master", "source") for column in cursor.description]
    return dict(zip(names, row, strict=True))
