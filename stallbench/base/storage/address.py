"""Where a run's folder is: at a path on this machine, or at an address like ``s3://bucket/runs/a-run``.

A path is a `pathlib.Path` and an address a `upath.UPath`. Both have the same methods, so what reads or writes a run's files takes either.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from stallbench.errors import BadInputError, NotCarriedOutError, StallbenchError

if TYPE_CHECKING:
    from upath import UPath

AnyPath: TypeAlias = "Path | UPath"
"""A file or folder on this machine or at an address."""

S3_SCHEMES = ("s3", "s3a")
"""Both name an S3 bucket: ``s3a`` is Hadoop's and Spark's word, ``s3`` that of all others."""

_LONGEST = 300
"""Characters of a file system's message; some list every folder that they searched."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_BUCKET = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]+")
_LIBRARIES = frozenset({"aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "s3fs"})
"""Packages of file systems whose exceptions are no `OSError`."""
_NO_ENDPOINT = "Invalid endpoint"
"""How botocore begins the message of its `ValueError`."""
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "DefaultCredentialsError"})


def is_address(text: str) -> bool:
    """Whether ``text`` is an address, and not a path on this machine."""
    return _ADDRESS.match(text) is not None and not text.lower().startswith("file://")


def open_address(address: str) -> UPath:
    """Return the folder or file at ``address``, whether it exists or not.

    Raises `BadInputError` for an address that contains a password, has an unknown scheme, or whose library is not installed.
    """
    from upath import UPath

    parts = urlsplit(address)
    if parts.password is not None:
        raise BadInputError(
            f"{parts.scheme}://...@{parts.hostname}: the address contains a secret, which process lists would show; remove it, and set "
            "the credentials in the environment"
        )
    if parts.scheme in S3_SCHEMES:
        if not _BUCKET.fullmatch(parts.netloc):
            raise BadInputError(f'{address}: the bucket is "{parts.netloc}"; expected {parts.scheme}://BUCKET/FOLDER')
        # The same process reads tables that another has just written.
        return UPath(f"s3://{parts.netloc}{parts.path}".rstrip("/"), use_listings_cache=False)
    try:
        opened = UPath(address.rstrip("/"))
        _ = opened.fs
    except (ValueError, ImportError) as error:
        raise BadInputError(f"{address}: its file system is not available: {error}") from error
    return opened


@contextmanager
def address_errors(address: str) -> Iterator[None]:
    """Turn what a file system raises in the block into one message.

    Raises `BadInputError` if there is no such file or bucket, no permission, or no valid configuration; else `NotCarriedOutError`.
    """
    try:
        yield
    except StallbenchError:
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise BadInputError(f"{address}: {_describe(error)}") from error
    except OSError as error:
        raise NotCarriedOutError(f"{address}: {_describe(error)}") from error
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(_NO_ENDPOINT):
            raise BadInputError(
                f"{address}: {_describe(error)}; set AWS_ENDPOINT_URL to an address like https://HOST:PORT"
            ) from error
        if type(error).__module__.partition(".")[0] not in _LIBRARIES:
            raise
        if type(error).__name__ in _NO_CREDENTIALS:
            raise BadInputError(
                f"{address}: {_describe(error)}; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from error
        raise NotCarriedOutError(f"{address}: {_describe(error)}") from error


def _describe(error: Exception) -> str:
    text = textwrap.shorten(str(error), _LONGEST, placeholder=" ...") or type(error).__name__
    return f"access is denied ({text})" if isinstance(error, PermissionError) else text[0].lower() + text[1:]
