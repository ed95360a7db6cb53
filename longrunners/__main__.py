"""``python -m longrunners [document.json]``: one longrunner, from its document on standard input or in a file.

``python -m longrunners --join DIR --kind KIND``: joins the run in DIR, or the newest run in DIR, if it has `external_processes`.

``--check`` validates the longrunners of a scenario: the library runs it, because it does not import what it starts.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from functools import partial

from longrunners import find_longrunner
from longrunners.longrunner import LongrunnerDocument, LostError
from longrunners.validation import Choice, Choices, find_issues
from stallbench.engines import driver_of
from stallbench.engines.role_errors import run_role
from stallbench.processes.exposure import serve
from stallbench.processes.role import EXIT_BAD_DOCUMENT, CannotContinueError, Stop, read_document, send_message
from stallbench.processes.role_arguments import role_parser
from stallbench.queues.role_document import role_document


def main() -> None:
    """Do what the command line asks for."""
    parser = role_parser("longrunners", "Hold a server's horizon.", LongrunnerDocument, joins=True)
    parser.add_argument(
        "--check",
        action="store_true",
        help="hold nothing: read a list of {kind, engine, role, options, settings} and print the list of validation issues of each",
    )
    parser.add_argument("--kind", default="idle_writer", help="with --join: kind of the longrunner")
    parser.add_argument("--on", default="primary", help="with --join: server whose horizon it holds")
    arguments = parser.parse_args()
    if arguments.check:
        choices = read_document(Choices, arguments.document)
        print(json.dumps([[issue.model_dump(mode="json") for issue in find_issues(choice)] for choice in choices.root]))
    else:
        run_role(partial(run_one, arguments))


def run_one(arguments: Namespace) -> None:
    """Hold until asked to stop, or clean up after a killed longrunner."""
    stop = Stop()
    with role_document(LongrunnerDocument, "longrunner", arguments, stop, kind=arguments.kind, on=arguments.on) as document:
        if document is not None:
            hold(document, stop)


def hold(document: LongrunnerDocument, stop: Stop) -> None:
    """Do what the document says."""
    engine = document.endpoint.engine
    if issues := find_issues(Choice(kind=document.kind, engine=engine, options=document.options)):
        print("\n".join(f"document of {document.name}: {issue}" for issue in issues), file=sys.stderr)
        sys.exit(EXIT_BAD_DOCUMENT)
    kind = find_longrunner(document.kind, engine)
    assert kind is not None, "its issues were found above"
    longrunner = kind(document, kind.options_type.model_validate(document.options))
    if document.release:
        send_message(released=True, removed=longrunner.clean_up())
        return
    driver = driver_of(engine)
    holder = longrunner.hold(stop)
    send_message(ready={"holder": holder, **_serve(document)})
    try:
        longrunner.keep(stop)
        longrunner.release()
    except Exception as error:
        if not isinstance(error, (LostError, CannotContinueError, *driver.errors)):
            raise
        why = f"{driver.code(error)}: {driver.describe(error)}" if isinstance(error, driver.errors) else str(error)
        send_message(lost=why)
        raise CannotContinueError(f"{document.name} no longer holds the horizon: {why}") from error
    send_message(released=True)


def _serve(document: LongrunnerDocument) -> dict[str, int]:
    if document.expose is None:
        return {}
    from prometheus_client import Gauge

    holding = Gauge("stallbench_longrunner_holding", "1 while it holds the horizon.", ["kind", "server"], registry=None)
    holding.labels(document.kind, document.on).set(1)
    return serve(document.expose, holding)


if __name__ == "__main__":
    main()
