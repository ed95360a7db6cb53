"""What the fault `migration` needs of a library, and what a user is told when it is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stallbench.libraries import LIBRARIES, LibraryError, find_libraries, find_library
from stallbench.libraries.definition import UPGRADE_TO, VERSION
from stallbench.libraries.installation import kinds_of
from stallbench.scenario.file import ScenarioError, read_scenario
from tests.libraries.made_up import APPLICATION, read_changed

LOCKED = {"python": "{package}=={version} ", "javascript": '"version": "{version}"', "go": "{package} v{version}\n"}
"""How a lock of each language names a version."""
MIGRATED = sorted(name for name, library in find_libraries().items() if library.migration)
OLDER = 'queue={kind="library:pg_boss", version="12.21.0"}'
FAULTS = "phases.migration.faults"


def test_the_scenario_migrates_a_library_from_an_older_version() -> None:
    scenario = read_scenario("live-migration", overrides=[OLDER])
    assert find_library("pg_boss").find_upgrade(scenario.queue.options) == ("12.21.0", "12.38.0")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            'queue={kind="library:pg_boss"}',
            r'kind is "migration", but the tables have version 12\.38\.0 from the start, as after it; '
            r"expected queue\.version to be one of 12\.21\.0, 12\.22\.0$",
        ),
        (
            'queue={kind="library:pg_boss", version="12.22.0", upgrade_to="12.22.0"}',
            r"the tables have version 12\.22\.0 from the start, as after it; expected queue\.version to be one of 12\.21\.0$",
        ),
        (
            'queue={kind="library:pg_boss", version="12.38.0", upgrade_to="12.22.0"}',
            r"the tables have version 12\.38\.0 from the start, which is not older than 12\.22\.0; "
            r"expected queue\.version to be one of 12\.21\.0$",
        ),
        ('queue={kind="library:pg_boss", version="12.20.0"}', r'queue\.version is "12\.20\.0"; expected .*12\.21\.0'),
        (
            'queue={kind="library:dramatiq_pg"}',
            r'kind is "migration", which "library:dramatiq_pg" cannot have: the library changes no table: .* creates it$',
        ),
        (f'queue={{kind="library:{APPLICATION}"}}', r"cannot have: its definition has no \[migration\]"),
    ],
    ids=["the newest", "the same", "a newer one", "not locked", "a reason", "no reason"],
)
def test_a_library_that_cannot_be_migrated_is_refused(override: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_scenario("live-migration", overrides=[override])


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("steps", r'how is "steps", but library:pg_boss decides about its migration; leave it out'),
        ("lock_timeout", r"lock_timeout is given, but library:pg_boss decides about its migration; leave it out"),
    ],
)
def test_a_library_decides_itself_how_it_migrates(variant: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_scenario("live-migration", variant=variant, overrides=[OLDER])


@pytest.mark.parametrize("name", MIGRATED)
def test_all_versions_of_a_library_are_locked_and_the_newest_is_the_default(name: str) -> None:
    library = find_library(name)
    locks = "".join(path.read_text() for kind in kinds_of(library) for path in kind.files(library.folder))
    for option in (VERSION, UPGRADE_TO):
        versions = library.options[option].one_of
        assert library.options[option].default == versions[-1] == library.version
        for version in versions:
            if library.language == "python" and version != library.version:  # it may have been in a package of another name
                assert (library.folder / f"earlier-{version}.lock").read_text().split()[0].endswith(f"=={version}")
            else:
                assert LOCKED[library.language].format(package=library.package, version=version) in locks


@pytest.mark.parametrize("earlier", sorted(LIBRARIES.glob("*/earlier-*.mod")), ids=lambda path: str(path.stem))
def test_what_the_versions_of_a_library_in_go_depend_on_is_downloaded_and_compiled_once(earlier: Path) -> None:
    package = find_library(earlier.parent.name).package
    newest, older = (
        {name: version for name, version in re.findall(r"^\t(\S+) (v\S+)", path.read_text(), re.MULTILINE) if package not in name}
        for path in (earlier.with_name("go.mod"), earlier)
    )
    common = newest.keys() & older.keys()
    assert len(common) >= 5
    assert {name: older[name] for name in common} == {name: newest[name] for name in common}


def test_an_earlier_version_of_river_is_refused_on_sqlite_where_it_has_other_columns_or_no_driver() -> None:
    with pytest.raises(ScenarioError, match=r'version is "0\.39\.0", which River has only on postgres'):
        read_scenario("sqlite-reader", overrides=['queue={kind="library:river", version="0.39.0"}'])


def test_a_migration_without_its_options_is_an_issue_of_the_definition(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"migration: needs the option version, with one_of; expected \[options\.version\]"):
        read_changed(tmp_path, "[options.version]", "[options.release]")
