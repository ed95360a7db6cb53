"""Copies a run's folder to an address, with its sealed records, and verifies the copy."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from stallbench.base.storage.address import address_errors, open_address
from stallbench.base.storage.private import require_plain
from stallbench.errors import NotCarriedOutError
from stallbench.records.sealing import seal

if TYPE_CHECKING:
    from upath import UPath

_AT_ONCE = 8
_RECORD = "run.json"


def open_for_upload(address: str) -> UPath:
    """Return the folder at ``address``, after a trial file was written there and removed: a run must not fail to be uploaded at its end.

    Raises `stallbench.errors.BadInputError` if there is no such bucket or no permission, `NotCarriedOutError` if it cannot be reached.
    """
    with address_errors(address):
        folder = open_address(address)
        trial = folder / f".stallbench-{secrets.token_hex(8)}"
        trial.write_text("")
        trial.unlink()
    return folder


def upload(folder: Path, target: UPath) -> None:
    """Seal the records of the run in ``folder``, copy it to ``target``, and verify that every file is there with its size.

    ``run.json`` is copied last: where it is, the records are complete. Raises `NotCarriedOutError` if ``target`` has another run, or if a
    file is not there as it should be, or if the records cannot be sealed; `UntrustedError` if there is a link in the folder; otherwise as `address_errors`
    does.
    """
    require_plain(folder)
    try:
        seal(folder)
    except OSError as error:
        raise NotCarriedOutError(
            f"{folder}: its records cannot be sealed: {error.strerror or error}; it is not uploaded"
        ) from error
    with address_errors(str(target)):
        record = target / _RECORD
        if record.exists() and record.read_bytes() != (folder / _RECORD).read_bytes():
            raise NotCarriedOutError(f"{target}: another run is already there; upload this one to another address")
        sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="upload") as pool:
            for _ in pool.map(lambda name: _copy(folder / name, target / name), sorted(sizes.keys() - {_RECORD})):
                pass
        _verify(target, {name: size for name, size in sizes.items() if name != _RECORD})
        _copy(folder / _RECORD, record)
        _verify(target, {_RECORD: sizes[_RECORD]})


def _copy(file: Path, target: UPath) -> None:
    target.fs.put_file(str(file), target.path)


def _verify(target: UPath, sizes: dict[str, int]) -> None:
    found = {
        path.rpartition(f"{target.path}/")[2]: about["size"] for path, about in target.fs.find(target.path, detail=True).items()
    }
    for name, size in sizes.items():
        if found.get(name) != size:
            there = f"has {found[name]} of its {size} bytes" if name in found else "is not there"
            raise NotCarriedOutError(f"{target}/{name}: {there} after the upload")
