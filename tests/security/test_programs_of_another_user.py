"""A program that another user could have put into the cache, or could change there, is not started: not even to ask for its version."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stallbench.base.storage import private
from stallbench.base.storage.private import Trust
from stallbench.libraries import find_libraries, installation
from stallbench.setup import components, go_toolchain, server_programs, steps, toxiproxy_program
from stallbench.setup.components import MissingComponentError, find_postgres, find_toxiproxy, require_trusted_program
from stallbench.setup.server_programs import find_server
from stallbench.setup.steps import Step, carry_out
from tests.security.conftest import OtherUser

Find = Callable[[], object]
PROGRAMS = {
    "toxiproxy": ("bin/toxiproxy-server", find_toxiproxy, f"version {components.TOXIPROXY_VERSION}"),
    "redis": ("redis/usr/bin/redis-server", lambda: find_server("redis"), "v=7.0.15"),
    "postgres": ("postgres/here/bin/postgres", lambda: find_postgres(99), "postgres (PostgreSQL) 99.1"),
}


@pytest.fixture
def cache(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which every user may create something, like that of the image with servers; the machine has no programs."""
    for module in (components, server_programs, steps, installation):
        monkeypatch.setattr(module, "CACHE", shared_folder)
    monkeypatch.setattr(server_programs, "_SYSTEM_FOLDERS", ())
    monkeypatch.setattr(components, "_SYSTEM_POSTGRES", shared_folder / "none")
    monkeypatch.setenv("PATH", "/nonexistent")
    return shared_folder


def plant(cache: Path, name: str, owner: OtherUser | None) -> tuple[Path, Find]:
    """Make a program that leaves a trace when it is started."""
    path, find, version = PROGRAMS[name]
    program = cache / path
    program.parent.mkdir(parents=True)
    for one in (program, program.parent / "initdb"):
        one.write_text(f"#!/bin/sh\n: > {cache}/started\necho '{version}'\n")
        one.chmod(0o755)
    if owner is not None:
        give(cache / Path(path).parts[0], owner)
    return program, find


def give(folder: Path, owner: OtherUser) -> None:
    for each in (folder, *folder.rglob("*")):
        os.chown(each, owner.uid, owner.gid)


def require_refused(cache: Path, find: Find, said: str) -> None:
    with pytest.raises(MissingComponentError) as refused:
        find()
    assert said in str(refused.value)
    assert not (cache / "started").exists()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_another_user_put_into_the_cache_is_not_started(cache: Path, other_user: OtherUser, name: str) -> None:
    program, find = plant(cache, name, other_user)
    require_refused(cache, find, f"belongs to {other_user.name}; expected root; or remove it by `rm -r {cache}/")
    shutil.rmtree(cache / PROGRAMS[name][0].split("/")[0])
    assert find() is None
    plant(cache, name, None)
    assert find() is not None
    assert (cache / "started").exists()
    assert program.exists()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("what", ["program", "folder"])
def test_a_program_that_every_user_may_replace_is_not_started(cache: Path, other_user: OtherUser, name: str, what: str) -> None:
    program, find = plant(cache, name, None)
    (program if what == "program" else program.parent).chmod(0o777)
    require_refused(cache, find, "can be written by every user; expected `chmod o-w`")


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_link_of_another_user_to_a_program_of_the_system_is_not_started(
    cache: Path, other_user: OtherUser, is_folder: bool
) -> None:
    """It could lead elsewhere when the program is started."""
    link = cache / "bin"
    link.symlink_to("/usr/bin") if is_folder else link.mkdir()
    if not is_folder:
        link = link / "toxiproxy-server"
        link.symlink_to("/bin/echo")
    os.chown(link, other_user.uid, other_user.gid, follow_symlinks=False)
    if is_folder:
        with pytest.raises(MissingComponentError, match=f"{link}: belongs to {other_user.name}"):
            require_trusted_program(link / "env")
    else:
        require_refused(cache, find_toxiproxy, f"{link}: belongs to {other_user.name}")


def test_libraries_of_another_user_beside_an_own_program_are_not_loaded(cache: Path, other_user: OtherUser) -> None:
    _, find = plant(cache, "redis", None)
    libraries = cache / "redis" / "usr" / "lib" / "x86-linux-gnu"
    libraries.mkdir(parents=True)
    os.chown(libraries, other_user.uid, other_user.gid)
    require_refused(cache, find, f"{libraries}: belongs to {other_user.name}")


def test_a_folder_that_a_variable_names_is_no_other_user_s_either(
    cache: Path, other_user: OtherUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, variable in (("redis", "STALLBENCH_REDIS_BIN"), ("postgres", "STALLBENCH_POSTGRES_BIN")):
        program, find = plant(cache, name, other_user)
        monkeypatch.setattr(components, "CACHE", cache / "elsewhere")
        monkeypatch.setattr(server_programs, "CACHE", cache / "elsewhere")
        monkeypatch.setenv(variable, str(program.parent))
        require_refused(cache, find, "or name a folder to which no other user can write")


def test_what_the_owner_of_the_bench_s_code_installed_is_used(
    cache: Path, other_user: OtherUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root in an image whose code and cache belong to a user of its own."""
    _, find = plant(cache, "redis", other_user)
    of_code = Trust(root=True, owners=frozenset({other_user.uid}), allows_links=True)
    monkeypatch.setattr(components, "PROGRAMS", of_code)
    assert find() is not None


def test_the_owner_of_the_code_is_the_only_further_one() -> None:
    assert private.PROGRAMS.owners == {Path(private.__file__).stat().st_uid}


def test_an_installed_library_of_another_user_is_not_started(cache: Path, other_user: OtherUser) -> None:
    library = next(iter(find_libraries().values()))
    target = installation.installation_of(library)
    target.mkdir(parents=True)
    give(cache / "libraries", other_user)
    with pytest.raises(MissingComponentError, match=f"belongs to {other_user.name}"):
        installation.command_of(library, "work")


def test_what_another_user_put_where_go_builds_is_not_built_in(
    cache: Path, other_user: OtherUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go believes what is in its cache of compiled packages."""
    scratch = cache / "go-build"
    (scratch / "cache").mkdir(parents=True)
    give(scratch, other_user)
    monkeypatch.setattr(go_toolchain, "_SCRATCH", scratch)
    monkeypatch.setattr(toxiproxy_program, "CACHE", cache)
    for build in (
        lambda: go_toolchain._build("/bin/true", cache, cache / "program", (), "."),
        lambda: toxiproxy_program._build("/bin/true", cache / "program", {}),
    ):
        require_refused(cache, build, f"{scratch}: belongs to {other_user.name}")
    os.chown(scratch, 0, 0)
    assert require_trusted_program(scratch) == scratch, "in a cache in which every user may create something"


def test_set_up_says_why_a_component_is_not_used(cache: Path, other_user: OtherUser) -> None:
    _, find = plant(cache, "toxiproxy", other_user)
    step = Step(name="Toxiproxy", is_installed=lambda: find() is not None, install=lambda: None, command="make setup")
    reason = carry_out(step)
    assert reason is not None
    assert f"belongs to {other_user.name}" in reason
