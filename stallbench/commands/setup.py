"""`stallbench setup`: installs the servers and programs that the bench needs and the machine lacks."""

from __future__ import annotations

from typing import Annotated

import typer


def setup(
    extent: Annotated[
        str,
        typer.Argument(
            metavar="[required|components|everything]",
            help="required: what every scenario needs. components: also the servers that only some scenarios need, which are otherwise installed "
            "when they are first needed. everything: also an archive of Java classes, with which reports are made in less time.",
            show_default=False,
        ),
    ] = "required",
) -> None:
    """Install the programs that the bench needs and does not find: PostgreSQL, Java, Toxiproxy. As root or with sudo, it installs Debian's packages.
    Without root or sudo, and for Toxiproxy, it puts files into the bench's cache folder (docs/install.md).

    Exit codes: 0 everything required is installed, 2 bad input, 3 something required is missing: the message has the command for each.

    For example:

        stallbench setup
        stallbench setup components
    """
    from stallbench.errors import BadInputError
    from stallbench.setup.install import Extent, install

    chosen = next((each for each in Extent if each.name.lower() == extent), None)
    if chosen is None:
        raise BadInputError(f"{extent}: expected {', '.join(each.name.lower() for each in Extent)}")
    install(chosen)
