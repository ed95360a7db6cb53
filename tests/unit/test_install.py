"""Set-up installs only what is missing, reports all failures in one message, and never trusts an incomplete step."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from stallbench.setup import cache as cache_module
from stallbench.setup import install, packages, steps, toxiproxy_program
from stallbench.setup.install import Extent
from stallbench.setup.packages import InstallError
from stallbench.setup.steps import Step, carry_out_all
from stallbench.setup.toxiproxy_program import install_toxiproxy
from tests.waiting import PATIENCE_S

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    for module in (cache_module, packages, steps, toxiproxy_program):
        monkeypatch.setattr(module, "CACHE", folder)
    monkeypatch.setattr(install, "_prepare_spark", lambda: None)
    return folder


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that set-up would have run."""
    commands: list[list[str]] = []
    monkeypatch.setattr(packages, "run", lambda command, **_: commands.append(list(command)))
    packages._update_lists.cache_clear()
    return commands


def a_step(name: str, action: Callable[[], None], *, there: bool = False, lane: str = "") -> Step:
    installed = [there]

    def installing() -> None:
        action()
        installed[0] = True

    return Step(name=name, is_installed=lambda: installed[0], install=installing, command=f"install {name} by hand", lane=lane)


def refuse(why: str) -> Callable[[], None]:
    def fail() -> None:
        raise InstallError(why)

    return fail


def test_what_is_installed_is_not_changed(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "installation_steps", lambda extent: [a_step("Java", refuse("never called"), there=True)])
    install.main([])
    assert re.fullmatch(r"set-up: everything is installed \(\d+\.\d s\)\n", capsys.readouterr().out)


def test_what_is_missing_is_installed_with_a_line_each(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "installation_steps", lambda extent: [a_step("Java", lambda: None)])
    install.main([])
    assert capsys.readouterr().out.splitlines()[:2] == ["set-up: Java ...", "set-up: Java: installed in 0 s"]


def test_everything_that_cannot_be_installed_is_listed_in_one_message(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [a_step("PostgreSQL", refuse("no root")), a_step("Java", lambda: None), a_step("Toxiproxy", refuse("no go"))]
    monkeypatch.setattr(install, "installation_steps", lambda extent: parts)
    with pytest.raises(SystemExit) as ended:
        install.main([])
    assert ended.value.code == 3
    assert capsys.readouterr().err.splitlines() == [
        "set-up: these components are missing; below each is the command that installs it:",
        "  PostgreSQL: no root",
        "    install PostgreSQL by hand",
        "  Toxiproxy: no go",
        "    install Toxiproxy by hand",
    ]


def test_a_full_disk_is_reported_without_a_traceback(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill_up() -> None:
        raise OSError(28, "No space left on device", "/some/file")

    monkeypatch.setattr(install, "installation_steps", lambda extent: [a_step("Java", fill_up)])
    with pytest.raises(SystemExit) as ended:
        install.main([])
    assert ended.value.code == 3
    assert "Java: /some/file: No space left on device" in capsys.readouterr().err


def test_a_part_that_is_not_found_after_its_installation_is_missing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = Step(name="Java", is_installed=lambda: False, install=lambda: None, command="by hand")
    monkeypatch.setattr(install, "installation_steps", lambda extent: [lost])
    with pytest.raises(SystemExit):
        install.main([])
    assert "Java: installed, but not found afterwards" in capsys.readouterr().err


def test_an_interrupted_set_up_ends_with_130(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(install, "installation_steps", lambda extent: [a_step("Java", interrupt)])
    with pytest.raises(SystemExit) as ended:
        install.main([])
    assert ended.value.code == 130
    assert "interrupted" in capsys.readouterr().err


def test_steps_of_one_lane_follow_each_other_and_those_of_another_do_not_wait_for_them(cache: Path) -> None:
    began: list[str] = []
    both_run = threading.Barrier(2, timeout=PATIENCE_S)

    def run(name: str, *, meets_the_other_lane: bool = False) -> Callable[[], None]:
        def action() -> None:
            began.append(name)
            if meets_the_other_lane:
                both_run.wait()

        return action

    failures = carry_out_all(
        [
            a_step("slow", run("slow", meets_the_other_lane=True), lane="one"),
            a_step("after slow", run("after slow"), lane="one"),
            a_step("other", run("other", meets_the_other_lane=True), lane="two"),
            a_step("first", run("first")),
        ]
    )
    assert failures == []
    assert began[0] == "first", "a step without a lane comes before all lanes"
    assert began.index("slow") < began.index("after slow")
    assert set(began) == {"first", "slow", "after slow", "other"}


def test_every_real_part_names_the_command_that_installs_it() -> None:
    required = install.installation_steps(Extent.REQUIRED)
    assert [step.name for step in required] == ["Python environment", "Python packages", "PostgreSQL", "Java", "Toxiproxy"]
    assert all(step.is_needed for step in required)
    for extent in (Extent.COMPONENTS, Extent.EVERYTHING):
        further = install.installation_steps(extent)[len(required) :]
        assert [step.name for step in further] == ["Beanstalkd", "MariaDB", "Redis", "pgbouncer", "Prometheus", "volatile disk"]
        assert not any(step.is_needed for step in further)
        assert all("install" in step.command or "make setup" in step.command for step in (*required, *further))


def test_what_debian_installs_and_unpacks_is_in_one_lane_because_dpkg_has_one_lock() -> None:
    lanes = {step.name: step.lane for step in install.installation_steps(Extent.EVERYTHING)}
    assert len({lanes[name] for name in ("PostgreSQL", "Java", "MariaDB", "Redis", "Beanstalkd", "pgbouncer", "Prometheus")}) == 1


@pytest.mark.parametrize(
    ("arguments", "is_built"), [([], True), (["everything"], True), (["components"], False), (["required"], False)]
)
def test_only_a_full_set_up_builds_the_class_archive(
    cache: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], is_built: bool
) -> None:
    built: list[bool] = []
    monkeypatch.setattr(install, "installation_steps", lambda extent: [])
    monkeypatch.setattr(install, "_prepare_spark", lambda: built.append(True))
    install.main(arguments)
    assert bool(built) == is_built


def test_postgresql_is_installed_without_a_cluster(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "may_install", lambda: True)
    packages.install_debian_postgres("postgresql-15")
    commands = [command[command.index("apt-get") :] if "apt-get" in command else command for command in ran]
    words = ["mkdir", "tee", "update", "postgresql-15", "rm"]
    assert len(commands) == len(words)
    assert all(word in command for word, command in zip(words, commands, strict=True)), commands
    written = [command[-1] for command in ran if "tee" in command or "rm" in command]
    assert written[0] == written[1], "what was written for the installation is taken away after it"
    assert "/createcluster.d/" in written[0], "a file beside the machine's configuration, never the configuration itself"


def test_debian_lists_are_updated_once(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "may_install", lambda: True)
    packages.install_debian("postgresql-15")
    packages.install_debian("openjdk-17-jre-headless")
    assert sum("update" in command for command in ran) == 1


def test_without_root_no_package_of_debian_is_tried(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "may_install", lambda: False)
    with pytest.raises(InstallError, match="not root"):
        packages.install_debian("postgresql-15")
    assert ran == []


def serve(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", lambda _url, timeout: io.BytesIO(content))


def test_the_release_of_toxiproxy_is_taken_when_its_checksum_is_right(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(b"the release", monkeypatch)
    right = dict.fromkeys(("amd64", "arm64"), hashlib.sha256(b"the release").hexdigest())
    monkeypatch.setattr(toxiproxy_program, "_RELEASE_SHA256", right)
    monkeypatch.setattr(toxiproxy_program, "_build_with_own_go", lambda _: pytest.fail("it was there already"))
    install_toxiproxy()
    program = cache / "bin" / "toxiproxy-server"
    assert program.read_bytes() == b"the release"
    assert os.access(program, os.X_OK)


def test_toxiproxy_with_a_wrong_checksum_is_refused_and_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(b"something else", monkeypatch)
    monkeypatch.setattr(toxiproxy_program, "_build_with_own_go", lambda _: refuse("no go")())
    monkeypatch.setattr(toxiproxy_program, "_build_with_packaged_go", lambda _: refuse("no package")())
    with pytest.raises(InstallError, match=r"not have the expected checksum; no go; no package"):
        install_toxiproxy()
    assert list((cache / "bin").iterdir()) == []


@pytest.mark.parametrize("argument", ["--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "a b", ""])
def test_the_packaged_java_is_not_started_with_the_module_that_it_lacks(tmp_path: Path, argument: str) -> None:
    wrapper, packaged = tmp_path / "java", tmp_path / "java-packaged"
    wrapper.write_text(install._JAVA_WRAPPER)
    packaged.write_text('#!/bin/sh\nfor argument; do printf "[%s]" "$argument"; done\n')
    for program in (wrapper, packaged):
        program.chmod(0o755)
    printed = subprocess.run([wrapper, "-first", argument, "last"], capture_output=True, text=True, check=True).stdout
    kept = "" if argument == "--add-modules=jdk.incubator.vector" else f"[{argument}]"
    assert printed == f"[-first]{kept}[last]"


@pytest.mark.parametrize(
    "module", ["components", "packages", "python_packages", "server_programs", "steps", "toxiproxy_program", "install"]
)
def test_set_up_needs_nothing_but_the_standard_library(module: str) -> None:
    bare = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import stallbench.setup.{module}",
    ]
    ended = subprocess.run(bare, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("lock", sorted((PROJECT / "requirements").glob("*.lock")), ids=lambda path: path.name)
def test_every_locked_package_has_a_version_and_hashes_and_no_address(lock: Path) -> None:
    packages_locked = re.split(r"\n(?=\S)", lock.read_text().strip())
    assert packages_locked
    for package in packages_locked:
        assert re.match(r"[a-z0-9._-]+==\S+ ", package), package[:80]
        assert "--hash=sha256:" in package, package[:80]
        assert "://" not in package, package[:80]
