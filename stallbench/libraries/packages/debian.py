"""Packages of Debian, for libraries whose language comes from Debian too: PHP and Ruby.

``debian.packages`` names them. They are downloaded with what they depend on and unpacked; nothing is installed on the machine. apt verifies them by
Debian's signatures. Their versions change with Debian's security updates; only that of the library itself is fixed: ``NAME=VERSION*``, as apt takes it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stallbench.libraries.definition import Library
from stallbench.libraries.packages.kind import PackageKind, present
from stallbench.setup.components import CACHE
from stallbench.setup.packages import unpack_debian

_LIST = "debian.packages"
_PHP_SETTINGS = "php.d"
_NOT_LOADED = ("opcache",)
"""PHP's modules that take effect only in a web server."""


class DebianPackages(PackageKind):
    """Unpacked by dpkg-deb. Packages that the machine already has are not unpacked."""

    def files(self, folder: Path) -> Sequence[Path]:
        """Return the list of the packages."""
        return present(folder, _LIST)

    def install(self, library: Library, target: Path) -> None:
        """Unpack the listed packages and what they need into ``target/debian``."""
        lines = (library.folder / _LIST).read_text().splitlines()
        unpack_debian(str((target / "debian").relative_to(CACHE)), *(line for line in lines if line and not line.startswith("#")))
        _enable_php_modules(target)

    def programs(self, target: Path) -> Mapping[str, Path]:
        """Return the interpreters."""
        return {"{php}": _find_program(target, "php"), "{ruby}": _find_program(target, "ruby")}

    def environment(self, target: Path) -> Mapping[str, str]:
        """Let the interpreters find what was unpacked first, then what the machine has."""
        root = target / "debian"
        ruby = [
            *root.glob("usr/lib/ruby/vendor_ruby"),
            *root.glob("usr/lib/*-linux-gnu/ruby/vendor_ruby/[0-9]*"),
            *root.glob("usr/lib/ruby/[0-9]*"),
            *root.glob("usr/lib/*-linux-gnu/ruby/[0-9]*"),
        ]
        gems = [*root.glob("usr/share/rubygems-integration/*"), *Path("/").glob("usr/share/rubygems-integration/*")]
        return {
            "LD_LIBRARY_PATH": _join(root.glob("usr/lib/*-linux-gnu")),
            "PHP_INI_SCAN_DIR": f":{target / _PHP_SETTINGS}",
            "RUBYLIB": _join(ruby),
            "GEM_PATH": _join(gems),
        }


def _find_program(target: Path, name: str) -> Path:
    """Return the unpacked program, whose name ends with a version, or the machine's; a path that does not exist if there is none."""
    unpacked = [path for path in target.glob(f"debian/usr/bin/{name}*") if re.fullmatch(rf"{name}[\d.]+", path.name)]
    return unpacked[0] if unpacked else Path(shutil.which(name) or target / name)


def _enable_php_modules(target: Path) -> None:
    """Write the settings by which PHP loads the unpacked modules: what the packages' scripts would do on the machine."""
    settings = target / _PHP_SETTINGS
    settings.mkdir()
    for path in (target / "debian").glob("usr/share/php*/*/*.ini"):
        module = next((target / "debian").glob(f"usr/lib/php/*/{path.stem}.so"), None)
        if module is not None and path.stem not in _NOT_LOADED:
            priority = re.search(r"priority=(\d+)", path.read_text())
            (settings / f"{priority[1] if priority else 20}-{path.name}").write_text(f"extension={module}\n")
    (settings / "90-paths.ini").write_text(f'include_path=".:{target / "debian/usr/share/php"}:/usr/share/php"\n')


def _join(paths: Iterator[Path] | Sequence[Path]) -> str:
    return os.pathsep.join(map(str, paths))
