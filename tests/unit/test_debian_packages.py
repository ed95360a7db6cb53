"""How libraries find what was unpacked from Debian's packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.libraries import find_library
from stallbench.libraries.packages import debian
from stallbench.libraries.packages.debian import DebianPackages


def make_file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_listed_packages_are_unpacked_and_php_loads_their_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[tuple[str, tuple[str, ...]]] = []
    root = tmp_path / "target" / "debian"

    def unpack(component: str, *names: str) -> None:
        unpacked.append((component, names))
        make_file(root / "usr/share/php8.2-common/common/pdo.ini", "; priority=10\nextension=pdo.so\n")
        make_file(root / "usr/share/php8.2-opcache/opcache/opcache.ini", "zend_extension=opcache.so\n")
        make_file(root / "usr/lib/php/20220829/pdo.so")

    monkeypatch.setattr(debian, "unpack_debian", unpack)
    monkeypatch.setattr(debian, "CACHE", tmp_path)
    make_file(tmp_path / "debian.packages", "# a comment\nphp-illuminate-queue=8.83.26*\n\nphp-cli\n")
    DebianPackages().install(find_library("laravel").model_copy(update={"folder": tmp_path}), tmp_path / "target")
    assert unpacked == [("target/debian", ("php-illuminate-queue=8.83.26*", "php-cli"))]
    settings = tmp_path / "target" / "php.d"
    assert (settings / "10-pdo.ini").read_text() == f"extension={root / 'usr/lib/php/20220829/pdo.so'}\n"
    assert sorted(path.name for path in settings.iterdir()) == ["10-pdo.ini", "90-paths.ini"]


def test_an_unpacked_interpreter_comes_before_the_machine_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert DebianPackages().programs(tmp_path)["{php}"] == tmp_path / "php", "not there"
    make_file(tmp_path / "bin" / "php").chmod(0o755)
    assert DebianPackages().programs(tmp_path)["{php}"] == tmp_path / "bin" / "php"
    for name in ("php.default", "phpdbg8.2", "php8.2"):
        make_file(tmp_path / "debian/usr/bin" / name)
    assert DebianPackages().programs(tmp_path)["{php}"] == tmp_path / "debian/usr/bin/php8.2"


def test_ruby_finds_unpacked_libraries_by_its_variables(tmp_path: Path) -> None:
    folders = ("usr/lib/ruby/vendor_ruby", "usr/lib/x86_64-linux-gnu/ruby/3.1.0", "usr/share/rubygems-integration/all")
    for folder in folders:
        (tmp_path / "debian" / folder).mkdir(parents=True)
    environment = DebianPackages().environment(tmp_path)
    assert environment["RUBYLIB"] == f"{tmp_path}/debian/usr/lib/ruby/vendor_ruby:{tmp_path}/debian/{folders[1]}"
    assert environment["GEM_PATH"].startswith(f"{tmp_path}/debian/usr/share/rubygems-integration/all")
    assert environment["LD_LIBRARY_PATH"] == f"{tmp_path}/debian/usr/lib/x86_64-linux-gnu"
