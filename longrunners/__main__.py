"""``python -m longrunners [document.json]``: one longrunner, from its document on standard input or in a file.

``--check`` reads a JSON list of ``{kind, role, options}`` and prints, for each, the list of its faults: the bench validates scenarios by
it, since the library does not import what it starts.
"""

from __future__ import annotations

import json
import sys

import psycopg
from pydantic import ValidationError

from longrunners import find_longrunners
from longrunners.longrunner import LongrunnerDocument, LostError
from stallbench.role import CannotGoOnError, Stop, read_document, run_role, say


def main() -> None:
    """Hold until asked to stop, or clean up after one that was killed."""
    document = read_document(LongrunnerDocument, sys.argv[1:])
    kind = find_longrunners().get(document.kind)
    if kind is None:
        raise CannotGoOnError(f"there is no longrunner {document.kind!r}; there are {', '.join(find_longrunners())}")
    longrunner = kind(document, kind.options_type.model_validate(document.options))
    if document.release:
        longrunner.release()
        return
    stop = Stop()
    say(ready={"holder": longrunner.hold()})
    try:
        longrunner.keep(stop)
    except (LostError, psycopg.Error) as error:
        say(lost=str(error))
        raise CannotGoOnError(f"{document.name} holds no longer: {error}") from error
    longrunner.let_go()
    say(released=True)


def check() -> None:
    """Print the faults of each choice on standard input, each as ``{where, found, expected}``."""
    print(json.dumps([find_faults(choice["kind"], choice["role"], choice["options"]) for choice in json.load(sys.stdin)]))


def find_faults(kind: str, role: str, options: dict[str, object]) -> list[dict[str, object]]:
    """Return what is wrong with a choice, as the parts of a sentence."""
    kinds = find_longrunners()
    if kind not in kinds:
        return [{"where": "kind", "found": kind, "allowed": list(kinds)}]
    chosen = kinds[kind]
    faults: list[dict[str, object]] = []
    if chosen.role != role:
        faults.append({"where": "on", "found": role, "expected": f"a {chosen.role}, where {kind} runs"})
    try:
        chosen.options_type.model_validate(options)
    except ValidationError as error:
        names = [field.alias or name for name, field in chosen.options_type.model_fields.items()]
        for fault in error.errors(include_url=False):
            where = ".".join(str(part) for part in fault["loc"])
            if fault["type"] == "extra_forbidden":
                faults.append({"where": where, "unknown": True, "allowed": names})
            else:
                faults.append({"where": where, "found": repr(fault["input"]), "expected": fault["msg"]})
    return faults


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    else:
        run_role(main)
