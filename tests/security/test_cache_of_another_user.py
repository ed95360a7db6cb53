"""The folder of the components, after a copy or a CI cache that kept neither owner nor permissions, is opened again, or its remedy is named."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stallbench.setup import cache, install, steps
from stallbench.setup.install import Extent
from tests.security.conftest import OtherUser

CLOSED = 0o700


@pytest.fixture
def components(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache with a program, a private folder, and nothing to install."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "cache"
        for name in ("pgbouncer/bin", "initdb"):
            (folder / name).mkdir(parents=True)
        (folder / "pgbouncer" / "bin" / "program").write_text("#!/bin/sh\necho started\n")
        for module in (cache, install, steps):
            monkeypatch.setattr(module, "CACHE", folder)
        monkeypatch.setattr(install, "installation_steps", lambda extent: [])
        yield folder


def test_a_closed_cache_is_opened_to_the_user_that_servers_run_as(components: Path, other_user: OtherUser) -> None:
    for path in (components, *components.rglob("*")):
        path.chmod(CLOSED)
    program = components / "pgbouncer" / "bin" / "program"
    with pytest.raises(PermissionError):
        other_user.run([program])
    install.install(Extent.COMPONENTS)
    assert other_user.run([program]).stdout == "started\n"
    assert (components / "initdb").stat().st_mode & 0o777 == CLOSED, "the data folders of servers stay private"


def test_who_may_not_change_the_cache_of_another_user_is_told_what_to_do(
    components: Path, other_user: OtherUser, capsys: pytest.CaptureFixture[str]
) -> None:
    install.install(Extent.COMPONENTS)
    os.seteuid(other_user.uid)
    try:
        with pytest.raises(SystemExit) as ended:
            install.install(Extent.COMPONENTS)
    finally:
        os.seteuid(0)
    assert ended.value.code == 3
    assert capsys.readouterr().err == (
        f"set-up: {components}/set-up.lock: Permission denied; {components} belongs to root: as root, either give it to this user by "
        f"`chown -R {other_user.name} {components}`, or remove it by `rm -r {components}`\n"
    )
