"""Installs Toxiproxy's server into the cache at set-up: downloads the release or, if that fails, builds it from its Go module.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from stallbench.setup.components import CACHE, TOXIPROXY_MODULE, TOXIPROXY_VERSION, require_trusted_program
from stallbench.setup.go_toolchain import WITHOUT_SYMBOLS, packaged_go
from stallbench.setup.packages import InstallError, run

_DOWNLOAD_TIMEOUT_S = 30
_RELEASE = "https://github.com/Shopify/toxiproxy/releases/download/v{version}/toxiproxy-server-linux-{machine}"
_RELEASE_SHA256 = {
    "amd64": "556d891134a3c582dc1e1a3f7335fd55142e5965769855a00b944e13e48302fc",
    "arm64": "53e770c1c3035b5a9f1bc629fce537db1f95f62b26f4ebe6e756afd701cf077c",
}
"""From the release's own checksums.txt."""
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_SOURCE = f"{TOXIPROXY_MODULE}/cmd/server@v{TOXIPROXY_VERSION}"

INSTALL_COMMAND = (
    f"GOBIN={CACHE}/bin go install {_SOURCE} && mv {CACHE}/bin/server {CACHE}/bin/toxiproxy-server   (needs go 1.23 or later)"
)


def install_toxiproxy() -> None:
    """Put the server into the cache; raises `InstallError` with the reason for each way that failed if all fail."""
    target = CACHE / "bin" / "toxiproxy-server"
    target.parent.mkdir(parents=True, exist_ok=True)
    refusals = []
    for install in (_download_release, _build_with_own_go, _build_with_packaged_go):
        try:
            install(target)
        except InstallError as error:
            refusals.append(str(error))
        else:
            return
    raise InstallError("; ".join(refusals))


def _download_release(target: Path) -> None:
    machine = _MACHINES.get(platform.machine(), platform.machine())
    if machine not in _RELEASE_SHA256:
        raise InstallError(f"there is no release for {platform.machine()}")
    url = _RELEASE.format(version=TOXIPROXY_VERSION, machine=machine)
    try:
        with urllib.request.urlopen(url, timeout=_DOWNLOAD_TIMEOUT_S) as answer:  # noqa: S310 - a fixed https address
            content = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise InstallError(f"the release cannot be downloaded ({error})") from error
    if hashlib.sha256(content).hexdigest() != _RELEASE_SHA256[machine]:
        raise InstallError("the downloaded release does not have the expected checksum")
    fresh = target.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    fresh.replace(target)


def _build_with_own_go(target: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise InstallError("go, which could build it, is not on PATH")
    _build(go, target, {})


def _build_with_packaged_go(target: Path) -> None:
    build = CACHE / "go-build"
    with packaged_go() as go:
        _build(go, target, {"GOPATH": str(build / "path"), "GOCACHE": str(build / "cache")})


def _build(go: str, target: Path, settings: dict[str, str]) -> None:
    build = require_trusted_program(CACHE / "go-build")
    # Without -modcacherw go leaves folders that cannot be deleted.
    environment = {**os.environ, "GOBIN": str(build), "CGO_ENABLED": "0", "GOFLAGS": "-modcacherw", **settings}
    try:
        # The version, by which the program is recognised, stays in it.
        run([go, "install", WITHOUT_SYMBOLS, _SOURCE], environment=environment)
        (build / "server").replace(target)
    finally:
        shutil.rmtree(build, ignore_errors=True)
