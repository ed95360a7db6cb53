"""Which Spark computes the tables, and with which settings, as the user asks for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stallbench.pipeline.failures import MasterError, SettingError

LOCAL = "local[*]"
_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|(spark|k8s)://.+|yarn")
_SECRET = re.compile(r"secret|password|token|access[.]?key|account[.]key", re.IGNORECASE)
"""Names of settings whose values Spark itself hides, and those of Azure's accounts."""
_NOT_SECRET = re.compile(r"(file|path|provider)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Spark's master, and settings as for ``spark-submit --conf``."""

    master: str = LOCAL
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether Spark runs within one process of this machine, and not on a cluster."""
        return self.master.startswith("local")

    def as_arguments(self) -> list[str]:
        """Return them as arguments of ``python -m stallbench.pipeline``."""
        return ["--master", self.master, *(f"--spark-conf={name}={value}" for name, value in self.settings.items())]


def read_spark_options(master: str, settings: Sequence[str]) -> SparkOptions:
    """Read ``--master`` and each ``--spark-conf``; raises `MasterError` or `SettingError` for one that is not valid."""
    require_master(master)
    read: dict[str, str] = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator or not name.startswith("spark."):
            shown = f"{name}=.." if separator else name
            raise SettingError(
                f"--spark-conf {shown}: expected NAME=VALUE with a name that begins with spark., like spark.executor.memory=4g"
            )
        if _SECRET.search(name) and not _NOT_SECRET.search(name):
            raise SettingError(
                f"--spark-conf {name}: process lists would show this secret; set it in spark-defaults.conf of the "
                "folder that SPARK_CONF_DIR names, or AWS credentials in the environment"
            )
        read[name] = value
    return SparkOptions(master, read)


def require_master(master: str) -> None:
    """Raise `MasterError` if ``master`` is no Spark master."""
    if not _MASTER.fullmatch(master):
        raise MasterError(f'master is "{master}"; expected local[*], local[4], spark://HOST:PORT, k8s://HOST:PORT or yarn')
