"""What Spark needs for a run in an S3 bucket: libraries that its distribution lacks, and the store and credentials that Python's file systems use.

Both sides read the AWS environment variables. Only Python's also reads ``~/.aws`` completely (profiles, SSO), so Spark is given what that finds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from stallbench.base.storage.address import S3_SCHEMES
from stallbench.pipeline.failures import PipelineError
from stallbench.setup.jars import S3A, find_spark_jars, read_jars, require_jars

_S3A_LIBRARY = re.compile(r"hadoop-(aws|cloud)")
_JARS = "spark.jars"
_PACKAGES = "spark.jars.packages"
_HADOOP = "hadoop-client-api-"
_AMAZON = re.compile(r"\.amazonaws\.com(\.cn)?$")
_FOUND_BY_SPARK = frozenset({"env", "iam-role", "container-role"})
"""Sources of credentials that Spark searches itself, as botocore names them."""


def is_s3a(folder: str) -> bool:
    """Whether the address ``folder`` is in an S3 bucket."""
    return folder.startswith(tuple(f"{scheme}://" for scheme in S3_SCHEMES))


def add_s3a(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the user's ``settings`` for Spark, with those that it lacks for ``s3a://``: libraries, and the store's address and region.

    The libraries are downloaded when they are first needed. Spark sends them to the executors of a cluster. Raises `PipelineError` if
    Spark has another Hadoop than they are for, `stallbench.setup.components.MissingComponentError` if they cannot be downloaded.
    """
    given = {**_read_spark_defaults(), **settings}
    store = {name: value for name, value in _find_store().items() if name not in given}
    return {**store, **settings, **_find_libraries(given)}


def find_credentials() -> dict[str, str]:
    """Return the environment variables by which Spark gets the credentials that Python's file systems use.

    Empty if there are none, and if Spark finds them itself: in the environment, or from the host's role.
    """
    import botocore.session

    credentials = botocore.session.get_session().get_credentials()
    if credentials is None or credentials.method in _FOUND_BY_SPARK:
        return {}
    frozen = credentials.get_frozen_credentials()
    found = {
        "AWS_ACCESS_KEY_ID": frozen.access_key,
        "AWS_SECRET_ACCESS_KEY": frozen.secret_key,
        "AWS_SESSION_TOKEN": frozen.token,
    }
    return {name: value for name, value in found.items() if value}


def _find_store() -> dict[str, str]:
    """Return Spark's settings for the store that Python's file systems use."""
    import botocore.session

    store = botocore.session.get_session().create_client("s3").meta
    settings: dict[str, str] = {}
    if not _AMAZON.search(urlsplit(store.endpoint_url).hostname or ""):
        # Only Amazon's own store has a host name for each bucket.
        settings |= {"spark.hadoop.fs.s3a.endpoint": store.endpoint_url, "spark.hadoop.fs.s3a.path.style.access": "true"}
    if store.region_name and store.region_name != "aws-global":
        settings["spark.hadoop.fs.s3a.endpoint.region"] = store.region_name
    return settings


def _find_libraries(given: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that gives Spark the libraries for ``s3a://``; none if the user's Spark or settings have them."""
    spark_jars = Path(os.environ["SPARK_HOME"]) / "jars" if "SPARK_HOME" in os.environ else find_spark_jars()
    names = [path.name for path in spark_jars.glob("*.jar")]
    if _S3A_LIBRARY.search(f"{given.get(_JARS)} {given.get(_PACKAGES)}") or any(map(_S3A_LIBRARY.match, names)):
        return {}
    wanted = next(jar.version for jar in read_jars(S3A) if jar.artifact == "hadoop-aws")
    found = next((name.removeprefix(_HADOOP).removesuffix(".jar") for name in names if name.startswith(_HADOOP)), None)
    if found != wanted:
        raise PipelineError(
            f"{spark_jars}: has Hadoop {found or 'of an unknown version'} and no hadoop-aws, which s3a:// needs; stallbench can add it to "
            f"Hadoop {wanted} only; add it by: --spark-conf {_PACKAGES}=org.apache.hadoop:hadoop-aws:{found or 'VERSION'}"
        )
    return {_JARS: ",".join([*filter(None, [given.get(_JARS)]), *map(str, require_jars(S3A))])}


def _read_spark_defaults() -> dict[str, str]:
    """Return what the user's ``spark-defaults.conf`` sets."""
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{os.environ['SPARK_HOME']}/conf" if "SPARK_HOME" in os.environ else None)
    path = Path(folder) / "spark-defaults.conf" if folder else None
    if path is None or not path.is_file():
        return {}
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [re.split(r"\s*[\s=:]\s*", line, maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
