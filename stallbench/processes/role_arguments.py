"""The command line that all roles share: a document to read, for some a run to join, and a help text made from the document's model."""

from __future__ import annotations

import argparse
import textwrap

from pydantic import BaseModel

from stallbench.processes.role_command import describe_role_command

GROUP_HELP = "with --join: also join a run of a member of this group, which was started with the same --group; default: only of your own user"
_HELP_COLUMNS = 100


def role_parser(module: str, does: str, document: type[BaseModel], *, joins: bool = False) -> argparse.ArgumentParser:
    """Return the parser of ``python -m <module>``, with the arguments ``document`` (a path, or ``-``) and, with ``joins``, ``join``.

    ``does``: one or two sentences on what the process does. The help text lists the keys of ``document`` after it.
    """
    parser = argparse.ArgumentParser(
        prog=describe_role_command(module),
        description=textwrap.fill(
            f"{does} It ends at SIGTERM or Ctrl-C. `stallbench run` starts this command and writes its document; "
            "start it yourself to use the process without the bench" + (", or with --join." if joins else "."),
            _HELP_COLUMNS,
        ),
        epilog=_describe_keys(document),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "document",
        nargs="?",
        default="-",
        help="file with one JSON object, whose keys are below; standard input if it is - or not given",
    )
    if joins:
        parser.add_argument(
            "--join",
            metavar="DIR",
            help="join the run in DIR, or the newest run in DIR, if its scenario has `external_processes = true`; "
            "the process takes its document from the run",
        )
        parser.add_argument("--group", metavar="NAME", help=GROUP_HELP)
    return parser


def _describe_keys(document: type[BaseModel]) -> str:
    lines = ["keys of the document:"]
    for name, field in document.model_fields.items():
        meaning = [field.description or ""]
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            meaning.append(f"an object with {', '.join(field.annotation.model_fields)}")
        meaning += ["required"] if field.is_required() else []
        lines += textwrap.wrap(
            f"{name}: {'; '.join(meaning)}",
            _HELP_COLUMNS,
            initial_indent="  ",
            subsequent_indent="      ",
        )
    return "\n".join(lines)
