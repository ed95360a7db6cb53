"""`stallbench upload`: copies a run to an object store."""

from __future__ import annotations

from typing import Annotated

import typer

from stallbench.base.storage.address import is_address
from stallbench.commands.options import RunsOption
from stallbench.errors import BadInputError
from stallbench.run.folder import RUNS, find_run_folder, require_own
from stallbench.visible_text import say


def upload(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder or the name of a run; `latest` is the newest.")],
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="Where runs are kept, like s3://BUCKET/RUNS. The copy has the run's name there."),
    ],
    runs: RunsOption = RUNS,
) -> None:
    """Copy a run to an object store and verify the copy. The run stays here, too.

    Credentials, region and endpoint come from the AWS environment variables or `~/.aws`.

    Exit codes: 0 the copy is verified, 2 bad input, 3 it failed.

    For example:

        stallbench upload latest s3://bucket/runs
    """
    from stallbench.run import upload as storage

    if not is_address(address):
        raise BadInputError(f"{address}: expected an address like s3://BUCKET/RUNS")
    folder = find_run_folder(run, runs).path
    require_own(folder)
    target = storage.open_for_upload(address) / folder.name
    storage.upload(folder, target)
    say(f"uploaded: {target}")
