"""Java libraries are downloaded once, and only with the listed checksum."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.setup import jars, steps
from stallbench.setup.components import MissingComponentError
from stallbench.setup.jars import find_spark_jars, read_jars, require_jars

SMALL = "org.reactivestreams:reactive-streams:1.0.4"
(SHA256,) = (jar.sha256 for jar in read_jars("s3a") if jar.artifact == "reactive-streams")

pytestmark = pytest.mark.integration


def test_the_libraries_for_s3_are_those_of_sparks_hadoop() -> None:
    (hadoop,) = find_spark_jars().glob("hadoop-client-api-*.jar")
    (version,) = (jar.version for jar in read_jars("s3a") if jar.artifact == "hadoop-aws")
    assert hadoop.name == f"hadoop-client-api-{version}.jar", (
        "requirements/s3a.jars says how its libraries follow from this version"
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setattr(jars, "LOCKS", tmp_path)
    for module in (jars, steps):
        monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.mark.long
def test_a_library_is_downloaded_when_it_is_first_needed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cache.parent / "small.jars").write_text(f"# a comment\n{SMALL} sha256:{SHA256}\n")
    (file,) = require_jars("small")
    assert file.name == "reactive-streams-1.0.4.jar"
    first, last = capsys.readouterr().err.splitlines()
    assert first == "set-up: 1 Java libraries of requirements/small.jars ..."
    assert "installed in" in last
    assert require_jars("small") == [file]
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in cache.iterdir()) == sorted([file.parent.name, "set-up.lock"])


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (f"{SMALL} sha256:{'0' * 64}", f"reactive-streams-1.0.4.jar has the SHA-256 {SHA256}, not 000"),
        (f"{SMALL}.no-such-version sha256:{SHA256}", "ended with exit code"),
    ],
)
@pytest.mark.long
def test_a_library_that_is_not_the_listed_one_is_not_used(cache: Path, listed: str, reason: str) -> None:
    (cache.parent / "small.jars").write_text(f"{listed}\n")
    with pytest.raises(MissingComponentError, match=r"^the 1 Java libraries of requirements/small\.jars were not found") as error:
        require_jars("small")
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert [path.name for path in cache.iterdir()] == ["set-up.lock"]
