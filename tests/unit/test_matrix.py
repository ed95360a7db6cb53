"""A matrix: versions are read, one that is not available is refused with those that are, and the page says whether an upgrade helps."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from stallbench.errors import BadInputError
from stallbench.queues import find_queues
from stallbench.setup import postgres_packages, server_programs
from stallbench.setup.components import MissingComponentError
from stallbench.setup.server_programs import ServerProgram
from stallbench.studies.comparison.plan import Plan
from stallbench.studies.comparison.record import ComparisonFolder
from stallbench.studies.comparison.screen import print_comparison
from stallbench.studies.comparison.versions import ServerVersion, make_matrix_plan, parse_versions
from tests.unit.made_up_comparison import conclude_comparison, make_made_up_record


@pytest.fixture(autouse=True)
def available(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL 14 to 18 from packages, MariaDB 10.11.14, and no MySQL."""

    def require(engine: str) -> ServerProgram:
        if engine == "mysql":
            raise MissingComponentError("MySQL was not found")
        return ServerProgram(path=Path("/nowhere"), version="10.11.14")

    monkeypatch.setattr(postgres_packages, "list_majors", lambda: [14, 15, 16, 17, 18])
    monkeypatch.setattr(postgres_packages, "list_packaged_majors", lambda: [14, 15, 16, 17, 18])
    monkeypatch.setattr(server_programs, "require_server", require)
    monkeypatch.setattr(server_programs, "find_servers", lambda engine: [require(engine)] if engine == "mariadb" else [])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("postgres:14..18", ["postgres:14", "postgres:15", "postgres:16", "postgres:17", "postgres:18"]),
        ("postgres:18,postgres:14", ["postgres:18", "postgres:14"]),
        (" mariadb:10.11 , postgres:17..18 ", ["mariadb:10.11", "postgres:17", "postgres:18"]),
        ("mariadb:10,postgres:18", ["mariadb:10", "postgres:18"]),
    ],
)
def test_versions_are_read_in_their_order(text: str, names: list[str]) -> None:
    assert [str(version) for version in parse_versions(text)] == names


AVAILABLE = "available: postgres:14, postgres:15, postgres:16, postgres:17, postgres:18, mariadb:10.11; docs/versions.md says how to use others"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgres:13..18", f'--versions "postgres:13..18": postgres:13..18 is not available here; {AVAILABLE}'),
        ("postgres:14,mysql:9", f'--versions "postgres:14,mysql:9": mysql:9 is not available here; {AVAILABLE}'),
        ("mariadb:11.8,postgres:14", f"mariadb:11.8 is not available here; {AVAILABLE}"),
        ("postgres:14", f"names only one version; a matrix needs two or more; {AVAILABLE}"),
        ("postgres:14,postgres:14..15", "postgres:14 is named twice"),
        ("postgres:18..14", "postgres:18..14 ends before it begins; expected the older version first"),
        (
            "oracle:23",
            '"oracle:23" is not ENGINE:VERSION or ENGINE:FIRST..LAST; expected versions like postgres:14..18,mariadb:10.11',
        ),
        ("", '"" is not ENGINE:VERSION'),
        (f"postgres:{'1' * 5_000}", "is not ENGINE:VERSION"),
    ],
)
def test_any_other_is_refused_in_one_line_with_what_is_available(text: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_versions(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", ["database.version=16", 'database.engine="mariadb"'])
def test_a_change_of_what_the_versions_decide_is_refused(change: str) -> None:
    with pytest.raises(BadInputError, match=f"--set {change}: --versions decides it; leave it out"):
        make_matrix_plan("longtx", versions="postgres:17..18", variant=None, rounds=1, seed=1, overrides=[change])


def plan_of(queue: str, text: str) -> Plan:
    return make_matrix_plan("longtx", versions=text, variant=None, rounds=1, seed=1, overrides=[f"queue.kind={queue}"])


def test_a_queue_that_does_not_run_on_every_engine_is_refused_with_those_that_do() -> None:
    with pytest.raises(BadInputError) as caught:
        plan_of("que", "postgres:14,mariadb:10.11")
    message = str(caught.value)
    assert message.startswith(
        '--versions "postgres:14,mariadb:10.11": queue.kind is "que", which runs on postgres, not on mariadb; '
        "queues that run on postgres and mariadb: "
    )
    names, _, suggested = message.rpartition(": ")[2].partition("; choose one with --set queue.kind=")
    proposed = names.split(", ")
    assert suggested == proposed[0]
    assert proposed == [kind for kind, queue in find_queues().items() if {"postgres", "mariadb"} <= set(queue.engines)]
    for kind in proposed:
        plan = plan_of(kind, "postgres:14,mariadb:10.11")
        assert [one.queue.kind for one in plan.chosen.values()] == [kind, kind]


def test_what_does_not_fit_a_version_is_said_of_that_version() -> None:
    with pytest.raises(BadInputError) as caught:
        make_matrix_plan("laravel-deadlock", versions="mariadb:10.11,postgres:17", variant=None, rounds=1, seed=1, overrides=[])
    assert '--versions postgres:17: queue.hint is "queue_index", which postgres does not know' in str(caught.value)
    assert "--set" not in str(caught.value)
    with pytest.raises(BadInputError) as caught:
        make_matrix_plan(
            "longtx",
            versions="postgres:17,mariadb:10.11",
            variant="idle_timeout",
            rounds=1,
            seed=1,
            overrides=["queue.kind=laravel"],
        )
    assert '--versions mariadb:10.11: database.engine is "mariadb", whose servers do not know what variant' in str(caught.value)
    assert "--set" not in str(caught.value)


def test_a_plan_runs_the_scenario_or_a_variant_on_every_version_at_one_load() -> None:
    plan = make_matrix_plan(
        "longtx", versions="postgres:17..18", variant="skip_locked", rounds=2, seed=5, overrides=["producers.rate=50"]
    )
    assert {run.variant for run in plan.runs[:2]} == {run.variant for run in plan.runs[2:]} == set(plan.chosen), "interleaved"
    assert [(one.database.version, one.database.packaged, one.variant) for one in plan.chosen.values()] == [
        ("17", True, "skip_locked"),
        ("18", True, "skip_locked"),
    ]
    assert {one.producers.rate for one in plan.chosen.values()} == {50}
    assert {phase.until for one in plan.chosen.values() for phase in one.phases} == {"duration", "caught_up"}, "equal durations"


def test_without_a_package_for_every_version_those_of_the_machine_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_packages, "list_packaged_majors", lambda: [18])
    plan = make_matrix_plan("longtx", versions="postgres:17..18", variant=None, rounds=1, seed=None, overrides=[])
    assert [one.database.packaged for one in plan.chosen.values()] == [False, False]


def test_the_page_says_whether_the_upgrade_helps_by_how_much_and_whether_that_is_significant(tmp_path: Path) -> None:
    measured = {
        "postgres:14": [8.0, 8.2, 8.1, 8.0, 8.1],
        "postgres:15": [8.1, 8.0, 8.2, 8.1, 7.9],
        "postgres:18": [4.0, 4.1, 4.1, 3.9, 4.0],
    }
    folder, record = make_made_up_record(measured, tmp_path)
    folder.write(record.model_copy(update={"versions": "postgres:14,postgres:15,postgres:18"}))
    shown = show(folder)
    assert "The upgrade from PostgreSQL 14 to 18 helps: claim_ms.p95 in longtx / baseline is 4 instead of 8.1, −50%." in " ".join(
        shown.split()
    )
    page, summary = ((folder.path / name).read_text() for name in ("report.html", "summary.md"))
    rows = [line for line in summary.splitlines() if line.startswith("| PostgreSQL")]
    assert [row.split("|")[1].strip() for row in rows] == ["PostgreSQL 14 to 15", "PostgreSQL 15 to 18", "PostgreSQL 14 to 18"]
    assert [row.split("|")[5].strip() for row in rows] == ["no significant difference", "helps", "helps"]
    assert "<h2>Upgrades</h2>" in page
    assert "control was not run" not in page
    assert "stallbench matrix made-up --versions postgres:14,postgres:15,postgres:18 --repeat 5 --seed 1" in summary


def test_with_too_few_rounds_nothing_is_claimed(tmp_path: Path) -> None:
    folder, record = make_made_up_record({"postgres:14": [8.0, 8.2], "postgres:18": [4.0, 4.1]}, tmp_path)
    folder.write(record.model_copy(update={"versions": "postgres:14,postgres:18"}))
    shown = " ".join(show(folder).split())
    assert "2 rounds are not enough to decide whether an upgrade helps; repeat at least 3 times: --repeat 3." in shown
    assert "not enough rounds" in shown


def test_an_upgrade_to_a_version_that_loses_jobs_is_not_just_called_a_help(tmp_path: Path) -> None:
    folder, record = make_made_up_record(
        {"postgres:14": [8.0, 8.2, 8.1, 8.0, 8.1], "postgres:18": [4.0, 4.1, 4.1, 3.9, 4.0]}, tmp_path
    )
    lossy = next(run for run in record.runs if run.variant == "postgres:18").model_copy(update={"unsafe": "3 jobs were lost"})
    folder.write(record.with_run(lossy).model_copy(update={"versions": "postgres:14,postgres:18"}))
    shown = " ".join(show(folder).split())
    assert "The upgrade from PostgreSQL 14 to 18 helps" in shown
    assert "But PostgreSQL 18 is not safe: a run lost jobs, or repeated them without a reason." in shown


def test_versions_are_ordered_as_numbers() -> None:
    assert ServerVersion.read("mariadb", "10.6") < ServerVersion.read("mariadb", "10.11")
    assert ServerVersion.read("mysql", "8.4").title == "MySQL 8.4"


def show(folder: ComparisonFolder) -> str:
    record, results = conclude_comparison(folder)
    console = Console(file=io.StringIO(), width=200)
    print_comparison(record, results, "report.html", console)
    shown: str = console.file.getvalue()  # type: ignore[attr-defined] # it is the StringIO
    return shown
