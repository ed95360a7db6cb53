"""Downloads Java libraries into the cache when they are first needed, by the versions and checksums in ``requirements/<name>.jars``.

Ivy downloads them, which is a part of Spark. ``python -m stallbench.setup.jars FILE`` renews the checksums of the versions that a file lists.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stallbench.setup.certificates import list_java_options
from stallbench.setup.components import CACHE, SETUP_COMMAND, MissingComponentError, require_java, require_trusted_program
from stallbench.setup.packages import LOCKS, InstallError, run
from stallbench.setup.steps import Step, carry_out, one_at_a_time

S3A = "s3a"
"""The libraries by which Spark reads and writes S3 buckets."""
_LINE = re.compile(
    r"(?P<organisation>[\w.-]+):(?P<artifact>[\w.-]+):(?P<version>[\w.-]+)(:(?P<classifier>[\w.-]+))?( sha256:(?P<sha256>[0-9a-f]{64}))?"
)
_SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/></resolvers>
</ivysettings>
"""
_FILES = "[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One library, as Maven names it."""

    organisation: str
    artifact: str
    version: str
    classifier: str | None = None
    sha256: str | None = None

    @property
    def file(self) -> str:
        """The name of its file."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    def __str__(self) -> str:
        parts = (self.organisation, self.artifact, self.version, self.classifier)
        return ":".join(part for part in parts if part) + (f" sha256:{self.sha256}" if self.sha256 else "")


def read_jars(name: str) -> list[Jar]:
    """Return what ``requirements/<name>.jars`` lists."""
    return _read(LOCKS / f"{name}.jars")


def _read(lock: Path) -> list[Jar]:
    lines = lock.read_text().splitlines()
    found = [_LINE.fullmatch(line) for line in lines if line and not line.startswith("#")]
    return [Jar(**match.groupdict()) for match in found if match]


def find_jars(name: str) -> list[Path] | None:
    """Return the files of the libraries that ``requirements/<name>.jars`` lists; none if they have not been downloaded."""
    jars, folder = read_jars(name), _folder(name)
    return [require_trusted_program(folder / jar.file) for jar in jars] if folder.is_dir() else None


def require_jars(name: str) -> list[Path]:
    """Return `find_jars`'s result; libraries that are missing are first downloaded, which may take some seconds.

    Raises `MissingComponentError` if they cannot be downloaded or do not have the listed checksums.
    """
    step = Step(
        name=f"{len(read_jars(name))} Java libraries of requirements/{name}.jars",
        is_installed=lambda: find_jars(name) is not None,
        install=lambda: download_jars(LOCKS / f"{name}.jars", _folder(name)),
        command=SETUP_COMMAND,
        is_needed=False,
    )
    reason = None
    if not step.is_installed():
        try:
            with one_at_a_time():
                reason = carry_out(step, sys.stderr)
        except OSError as error:
            reason = f"{error.filename or CACHE}: {error.strerror}"
    found = find_jars(name)
    if found is None:
        raise MissingComponentError(f"the {step.name} were not found and could not be downloaded: {reason}")
    return found


def find_spark_jars() -> Path:
    """Return the folder of the jars of PySpark's own distribution; raises `MissingComponentError` without it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise MissingComponentError(f"PySpark was not found; install it by: {SETUP_COMMAND}")
    return Path(spec.submodule_search_locations[0]) / "jars"


def _folder(name: str) -> Path:
    """Return where the libraries are kept. A list with other versions has another folder, so that files in use are never changed."""
    digest = hashlib.sha256("\n".join(map(str, read_jars(name))).encode()).hexdigest()
    return CACHE / f"{name}-{digest[:16]}"


def download_jars(lock: Path, target: Path) -> None:
    """Download the libraries that the file ``lock`` lists into the folder ``target``, which is made; raises `InstallError`.

    They are moved to it when all are there and have the listed checksums.
    """
    with tempfile.TemporaryDirectory(prefix=f"{lock.stem}-", dir=CACHE) as scratch:
        jars, fresh = _read(lock), Path(scratch) / "jars"
        _download(jars, Path(scratch), fresh)
        for jar in jars:
            if (found := _sha256(fresh / jar.file)) != jar.sha256:
                raise InstallError(f"{jar.file} has the SHA-256 {found}, not {jar.sha256}")
        fresh.rename(target)


def _download(jars: Sequence[Jar], scratch: Path, target: Path) -> None:
    (scratch / "settings.xml").write_text(_SETTINGS)
    (scratch / "ivy.xml").write_text(_list_for_ivy(jars))
    ivy = next(find_spark_jars().glob("ivy-*.jar"), None)
    if ivy is None:
        raise InstallError("PySpark has no Ivy, which downloads them")
    options = ["-warn", "-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", str(scratch / "cache")]
    java = require_java().home / "bin" / "java"
    run([str(java), *list_java_options(scratch), "-jar", str(ivy), *options, "-retrieve", f"{target}/{_FILES}"], folder=scratch)


def _list_for_ivy(jars: Sequence[Jar]) -> str:
    listed = []
    for jar in jars:
        kind = f' m:classifier="{jar.classifier}"' if jar.classifier else ""
        listed.append(
            f'<dependency org="{jar.organisation}" name="{jar.artifact}" rev="{jar.version}" transitive="false">'
            f'<artifact name="{jar.artifact}" type="jar" ext="jar"{kind}/></dependency>'
        )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="stallbench" module="jars"/>'
        f"<dependencies>{''.join(listed)}</dependencies></ivy-module>"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lock(path: Path) -> None:
    """Write the checksums of the versions that the file lists."""
    with tempfile.TemporaryDirectory(prefix="stallbench-jars-") as scratch:
        fresh = Path(scratch) / "jars"
        _download(_read(path), Path(scratch), fresh)
        comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
        locked = [str(replace(jar, sha256=_sha256(fresh / jar.file))) for jar in _read(path)]
        path.write_text("\n".join([*comments, *locked, ""]))


if __name__ == "__main__":
    for each in sys.argv[1:]:
        _lock(Path(each))
