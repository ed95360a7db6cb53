"""Facts about the machine and the installed libraries, for the record of a run."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from stallbench import PROJECT
from stallbench.run.record import HostRecord

_LIBRARIES = ("psycopg", "pyspark", "pandas", "pyarrow", "pydantic", "toxiproxy-python", "psutil", "scipy")


def read_library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that can influence a result; ``not installed`` if one is missing."""
    versions = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "not installed"
    return versions


def read_host_facts() -> HostRecord:
    """Return the present facts about this machine."""
    return HostRecord(
        cpus=psutil.cpu_count() or 1,
        cpu_model=_read_cpu_model(),
        memory_bytes=psutil.virtual_memory().total,
        kernel=platform.release(),
        os=_read_os_name(),
        disk_free_bytes=psutil.disk_usage(str(PROJECT)).free,
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    )


def _read_os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _read_cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
