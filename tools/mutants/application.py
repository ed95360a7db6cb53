"""Mutants of an application with its own worker: what a user's code may have wrong, tried with the whole of `stallbench conform`.

The application is the one of `tests/libraries/application`: a view enqueues a mail, and a worker sends it.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stallbench.processes.reaper import name_temporary
from tests.libraries.made_up import APPLICATION, make_application
from tools.mutants import results
from tools.mutants.crash_trials import KeptRunner, judge_whole

_FILE = "shop.py"
_DIGEST = 12


class Change(NamedTuple):
    """One mistake."""

    before: str
    """A text of the application."""
    after: str


CHANGES: Mapping[str, Change] = {
    "claims without a lock": Change(" FOR UPDATE SKIP LOCKED", ""),
    "forgets to delete": Change('            connection.execute("DELETE FROM mails WHERE id = %s", [mail_id])\n', ""),
    "sends after the commit": Change(
        '            send(mail)\n            connection.execute("DELETE FROM mails WHERE id = %s", [mail_id])\n',
        '            connection.execute("DELETE FROM mails WHERE id = %s", [mail_id])\n    if mail is not None:\n        send(mail)\n',
    ),
    "deletes in another transaction": Change(
        '            send(mail)\n            connection.execute("DELETE FROM mails WHERE id = %s", [mail_id])\n',
        '            send(mail)\n    if mail is not None:\n        connection.execute("DELETE FROM mails WHERE id = %s", [mail_id])\n',
    ),
    "deletes by time": Change(
        "DELETE FROM mails WHERE id = %s",
        "DELETE FROM mails WHERE enqueued_at = (SELECT enqueued_at FROM mails WHERE id = %s)",
    ),
    "sends the youngest first": Change("ORDER BY id", "ORDER BY id DESC"),
    "deletes all that is older": Change("DELETE FROM mails WHERE id = %s", "DELETE FROM mails WHERE id <= %s"),
    "enqueues the first mail alone": Change("for mail in mails])", "for mail in mails[:1]])"),
    "enqueues twice": Change("[(Jsonb(mail),) for mail in mails])", "[(Jsonb(mail),) for mail in mails for _ in range(2)])"),
    "ends at the first error": Change(
        '            logging.exception("the worker tries again")\n            stop.wait(1)\n', "            stop.set()\n"
    ),
}


def try_application(path: Path, until_s: float, *, seed: int) -> None:
    """Try each that has no result yet until the time is over; adds a record for each to the file at ``path``."""
    text = (APPLICATION / _FILE).read_text()
    known = {(each["mutant"], each["digest"]) for each in results.read(path) if each["kind"] == "application"}
    runner = KeptRunner(is_latest=False)
    try:
        for name, change in CHANGES.items():
            assert text.count(change.before) == 1, name
            changed = text.replace(change.before, change.after)
            digest = hashlib.sha256(changed.encode()).hexdigest()[:_DIGEST]
            if (name, digest) in known:
                continue
            if time.monotonic() >= until_s:
                break
            began_s = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=name_temporary("mutants")) as folder:
                shop = make_application(Path(folder))
                (shop / _FILE).write_text(changed)
                judged = judge_whole(f"library:{shop}", {}, Path(folder), runner, seed)
            seconds = round(time.monotonic() - began_s, 1)
            results.append(path, {"kind": "application", "mutant": name, "digest": digest, **judged, "seconds": seconds})
            print(f"{judged['result']} {seconds} s {name}: {judged['by']}", flush=True)
    finally:
        runner.close()
