"""How variants and the changes of a command line are applied to a scenario, and what is reported if they do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.scenario.file import read_variants
from stallbench.scenario.model import Scenario
from tests.unit.scenario_text import ALL_KEYS, OF_POSTGRES, SMALL, find_lines, read, write

ALLOWED = f"allowed are {ALL_KEYS}"


def read_variant(folder: Path, overlay: str) -> Scenario:
    return read(folder, f"{SMALL}\n[variants.x]\n{overlay}\n", variant="x")


def test_a_table_is_merged_key_by_key(tmp_path: Path) -> None:
    scenario = read_variant(tmp_path, 'workers.count = 4\ndatabase.settings.work_mem = "1MB"')
    assert (scenario.workers.count, scenario.workers.work_s) == (4, 0.001)
    assert scenario.database.settings == {"autovacuum_naptime": "5s", "work_mem": "1MB"}
    assert scenario.variant == "x"


def test_without_the_variant_the_scenario_is_as_written(tmp_path: Path) -> None:
    scenario = read(tmp_path, f"{SMALL}\n[variants.x]\nworkers.count = 4\n")
    assert (scenario.workers.count, scenario.variant) == (2, None)


def test_one_phase_is_changed_by_its_name(tmp_path: Path) -> None:
    scenario = read_variant(tmp_path, 'phases.longtx.duration = "1m"\nphases.baseline.name = "before"\nexpect = []')
    assert [(phase.name, phase.duration_s) for phase in scenario.phases] == [("warmup", 1), ("before", 5), ("longtx", 60)]
    assert scenario.phases[2].longrunners[0].kind == "idle_writer"


def test_a_single_phase_may_be_called_a_phase(tmp_path: Path) -> None:
    scenario = read(tmp_path, SMALL, overrides=["phase.longtx.duration=1m", "phases.baseline.duration=2m"])
    assert [phase.duration_s for phase in scenario.phases] == [1, 120, 60]


def test_an_array_of_phases_replaces_them(tmp_path: Path) -> None:
    scenario = read_variant(tmp_path, 'phases = [{ name = "only", duration = "3s" }]\nexpect = []')
    assert [phase.name for phase in scenario.phases] == ["only"]


def test_expectations_are_replaced_or_added_to(tmp_path: Path) -> None:
    other = '[{ metric = "depth.max", at_most = 10 }]'
    assert [e.metric for e in read_variant(tmp_path, f"expect = {other}").expect] == ["depth.max"]
    assert [e.metric for e in read_variant(tmp_path, f"also_expect = {other}").expect] == ["claim_ms.p95", "depth.max"]
    both = read_variant(tmp_path, f"expect = []\nalso_expect = {other}")
    assert [e.metric for e in both.expect] == ["depth.max"]


def test_options_of_one_queue_do_not_leak_into_another(tmp_path: Path) -> None:
    text = SMALL.replace('kind = "que"', 'kind = "que"\nrecheck = false\npriority = 7')
    scenario = read(tmp_path, f'{text}\n[variants.other]\nqueue.kind = "skip_locked"\n', variant="other")
    assert (scenario.queue.kind, scenario.queue.options) == ("skip_locked", {})


def test_settings_of_one_engine_do_not_reach_a_server_of_another(tmp_path: Path) -> None:
    on_mariadb = 'queue.kind = "laravel"\ndatabase.engine = "mariadb"'
    assert read_variant(tmp_path, on_mariadb).database.settings == {}
    with_own = read_variant(tmp_path, f"{on_mariadb}\ndatabase.settings.wait_timeout = 3")
    assert with_own.database.settings == {"wait_timeout": 3}
    text = f"{SMALL}\n[variants.x]\n{on_mariadb}\ndatabase.settings.wait_timeout = 3\ndatabase.replicas = 0\n"
    on_mysql = read(tmp_path, text, variant="x", overrides=["database.engine=mysql"])
    assert on_mysql.database.settings == {"wait_timeout": 3}, "MariaDB and MySQL have most settings in common"


def test_the_connection_limit_is_kept_on_another_engine(tmp_path: Path) -> None:
    overlay = 'queue.kind = "laravel"\ndatabase.engine = "mariadb"\ndatabase.replicas = 0'
    text = SMALL.replace('autovacuum_naptime = "5s"', 'autovacuum_naptime = "5s", max_connections = 40')
    on_mariadb = f"{text}\n[variants.x]\n{overlay}\n"
    assert read(tmp_path, on_mariadb, variant="x").database.settings == {"max_connections": 40}
    back = read(tmp_path, on_mariadb, variant="x", overrides=["database.engine=postgres"])
    assert back.database.settings == {"max_connections": 40}
    without_server = ["database.engine=sqlite", "phases.longtx.longrunners=[]"]
    assert read(tmp_path, on_mariadb, variant="x", overrides=without_server).database.settings == {}


def test_an_engine_that_does_not_know_what_the_variant_sets_is_refused(tmp_path: Path) -> None:
    text = f"{SMALL}\n[variants.x]\ndatabase.settings.work_mem = '1MB'\n"
    overrides = ["database.engine=mariadb", "queue.kind=laravel", "database.replicas=0"]
    assert find_lines(tmp_path, text, variant="x", overrides=overrides) == [
        '--set database.engine is "mariadb", whose servers do not know what variant x sets: database.settings.work_mem; '
        "expected another variant"
    ]


def test_options_of_the_same_queue_are_merged(tmp_path: Path) -> None:
    text = SMALL.replace('kind = "que"', 'kind = "que"\npriority = 7')
    scenario = read(tmp_path, f"{text}\n[variants.x]\nqueue.recheck = false\n", variant="x")
    assert scenario.queue.options == {"priority": 7, "recheck": False}


def test_variants_are_listed_with_their_own_summaries(tmp_path: Path) -> None:
    path = write(tmp_path, f'{SMALL}\n[variants.one]\nsummary = "Another."\n[variants.two]\nworkers.count = 1\n')
    assert read_variants(path) == {"one": "Another.", "two": ""}
    assert read(tmp_path, path.read_text(), variant="one").summary == "Another."
    assert read(tmp_path, path.read_text(), variant="two").summary == "A small one."


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ("workers.count=4", ("workers", "count"), 4),
        (" workers.count = 4 ", ("workers", "count"), 4),
        ("workers.work=2ms", ("workers", "work_s"), 0.002),
        ('workers.work="2ms"', ("workers", "work_s"), 0.002),
        ("queue.recheck=false", ("queue", "options"), {"recheck": False}),
        ("queue.kind=skip_locked", ("queue", "kind"), "skip_locked"),
        ("database.settings.work_mem=1MB", ("database", "settings"), {"autovacuum_naptime": "5s", "work_mem": "1MB"}),
        ('database.settings."a.b"=on', ("database", "settings"), {"autovacuum_naptime": "5s", "a.b": "on"}),
        ("database.settings={}", ("database", "settings"), {"autovacuum_naptime": "5s"}),
        ("summary=a = b", ("summary",), "a = b"),
        ("seed=7", ("seed",), 7),
        ("expect=[]", ("expect",), ()),
    ],
)
def test_one_value_is_changed_by_its_path(change: str, key: tuple[str, ...], value: object, tmp_path: Path) -> None:
    found: object = read(tmp_path, SMALL, overrides=[change])
    for part in key:
        found = getattr(found, part)
    assert found == value


def test_changes_are_applied_after_the_variant_and_the_last_of_two_wins(tmp_path: Path) -> None:
    text = f'{SMALL}\n[variants.x]\nworkers.count = 4\nphases.longtx.duration = "1m"\n'
    changes = ["phases.longtx.duration=2m", "workers.count=5", "workers.count=6"]
    scenario = read(tmp_path, text, variant="x", overrides=changes)
    assert scenario.changes == tuple(changes)
    assert (scenario.workers.count, scenario.phases[2].duration_s) == (6, 120)


@pytest.mark.parametrize("order", [1, -1])
def test_a_changed_queue_and_its_options_can_be_given_in_any_order(order: int, tmp_path: Path) -> None:
    text = SMALL.replace('kind = "que"', 'kind = "que"\npriority = 7')
    changes = ["queue.kind=que", "queue.recheck=false"][::order]
    assert read(tmp_path, text, overrides=changes).queue.options == {"recheck": False}


VARIANT_ISSUES = [
    ("workers.count = -1", "variants.x.workers.count is -1; expected at least 0"),
    ("workers = 3", "variants.x.workers is 3; expected a table"),
    (
        'queue.kind = "quue"',
        f'variants.x.queue.kind is "quue"; did you mean "que"? Expected one of {OF_POSTGRES}',
    ),
    (
        "queue.rechek = true",
        'variants.x.queue.rechek: unknown key of que; allowed are kind, recheck, queue, priority, claim_after_last, start_over, batch; did you mean "recheck"?',
    ),
    (
        'phases.longtx.duration = "long"',
        'variants.x.phases.longtx.duration is "long"; expected a number with us, ms, s, m or h, like "90s"',
    ),
    ("phases.longtx = 3", "variants.x.phases.longtx is 3; expected keys of a phase, like phases.longtx.duration"),
    (
        "phases.longt.measured = true",
        'variants.x.phases.longt: there is no such phase; expected one of warmup, baseline, longtx; did you mean "longtx"?',
    ),
    (
        'phases = [{ name = "longtx", duration = "3s" }]',
        'with variant x: expect[0].relative_to is "baseline"; expected one of longtx',
    ),
    (
        "phases.baseline.measured = false",
        'with variant x: expect[0].relative_to is "baseline", which is not measured; expected one of longtx',
    ),
    (
        "database.replicas = 0\ndatabase.hot_standby_feedback = true",
        "variants.x.database.hot_standby_feedback is given, but database.replicas is 0; it needs at least 1",
    ),
    ("also_expect = 3", "variants.x.also_expect is 3; expected an array, like [{ .. }, { .. }]"),
    ('also_expect = [{ metric = "depth.max" }]', "variants.x.also_expect[0] has no bound; expected at_least, at_most or both"),
    (
        'expect = [{ metric = "depth.maximum", at_most = 1 }]',
        'variants.x.expect[0].metric is "depth.maximum"; expected depth with one of .first, .last, .min, .max, .mean, .slope',
    ),
    ("seed = nan", "variants.x.seed is nan; expected a finite number"),
    (
        "variants.y.seed = 2",
        f"variants.x.variants: unknown key; {ALLOWED}",
    ),
    ("phase.longtx.measured = 1", "variants.x.phase.longtx.measured is 1; expected true or false"),
    (
        "phase = 3",
        "variants.x.phase is 3; expected a table for each phase that changes, like phases.longtx.duration",
    ),
    ('phasis.longtx.duration = "1s"', f'variants.x.phasis: unknown key; {ALLOWED}; did you mean "phases"?'),
]


@pytest.mark.parametrize(("overlay", "line"), VARIANT_ISSUES, ids=[overlay[:40] for overlay, _ in VARIANT_ISSUES])
@pytest.mark.parametrize("asked", [None, "x"])
def test_an_invalid_variant_is_reported_whether_it_is_selected_or_not(
    overlay: str, line: str, asked: str | None, tmp_path: Path
) -> None:
    assert find_lines(tmp_path, f"{SMALL}\n[variants.x]\n{overlay}\n", variant=asked) == [line]


CHANGE_ISSUES = [
    ("workers.count", '--set "workers.count": expected KEY=VALUE, like workers.count=4'),
    ("", '--set "": expected KEY=VALUE, like workers.count=4'),
    ("=4", '--set "=4": expected KEY=VALUE, like workers.count=4'),
    ("workers.count=", '--set "workers.count=": expected KEY=VALUE, like workers.count=4'),
    ("workers..count=4", '--set "workers..count=4": expected KEY=VALUE, like workers.count=4'),
    ("expect[0].at_least=4", '--set "expect[0].at_least=4": expected KEY=VALUE, like workers.count=4'),
    ("a\nb=4", '--set "a\\nb=4": expected KEY=VALUE, like workers.count=4'),
    ("# a=4", '--set "# a=4": expected KEY=VALUE, like workers.count=4'),
    (
        "variants.x.seed=4",
        '--set "variants.x.seed=4": a variant cannot be changed; change the key itself, without `variants.`',
    ),
    ("workers.count=four", '--set workers.count is "four"; expected a whole number'),
    ("workers=4", "--set workers is 4; expected a table"),
    (
        "worker.count=4",
        f'--set worker: unknown key; {ALLOWED}; did you mean "workers"?',
    ),
    ("phases.longtx.duration=10", '--set phases.longtx.duration is 10; expected a number with us, ms, s, m or h, like "90s"'),
    (
        "phases.longtxx.duration=10s",
        '--set phases.longtxx: there is no such phase; expected one of warmup, baseline, longtx; did you mean "longtx"?',
    ),
    ("phases=[]", "--set phases is empty; expected at least 1"),
    (
        "phases.baseline.measured=false",
        '--set: expect[0].relative_to is "baseline", which is not measured; expected one of longtx',
    ),
    ("seed=1e999", "--set seed is inf; expected a finite number"),
    ("summary=2015-05-18", "--set summary is 2015-05-18, a date or time; no key of a scenario takes one"),
    ("summary=\udcff", "--set summary contains the character U+DCFF; expected printable text"),
    (f"seed={'[' * 50}{']' * 50}", f'--set "seed={"[" * 50}]]]]]"...: tables or arrays are nested more than 16 deep'),
]


@pytest.mark.parametrize(("change", "line"), CHANGE_ISSUES, ids=[ascii(change[:30]) for change, _ in CHANGE_ISSUES])
def test_an_invalid_change_is_reported(change: str, line: str, tmp_path: Path) -> None:
    assert find_lines(tmp_path, SMALL, overrides=[change]) == [line]


def test_an_unknown_variant_is_reported_with_the_most_similar(tmp_path: Path) -> None:
    text = f"{SMALL}\n[variants.fast]\nseed = 2\n[variants.slow]\nseed = 3\n"
    assert find_lines(tmp_path, text, variant="fats") == [
        'there is no variant "fats"; did you mean "fast"? Expected one of fast, slow'
    ]
    assert find_lines(tmp_path, SMALL, variant="fast", overrides=["seed=x"]) == [
        'there is no variant "fast"; there is none',
        '--set seed is "x"; expected a whole number',
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("variants = []", "variants is an array; expected tables, like [variants.skip_locked]"),
        ("variants.fast = 3", "variants.fast is 3; expected a table, like [variants.fast]"),
        (
            'variants."../up".seed = 3',
            'variants."../up": expected a name of up to 63 small letters, digits, - and _, the first a letter',
        ),
    ],
)
def test_variants_have_names_and_are_tables(text: str, line: str, tmp_path: Path) -> None:
    assert find_lines(tmp_path, f"{text}\n{SMALL}") == [line]


def test_all_issues_are_reported_at_once_and_each_at_its_path(tmp_path: Path) -> None:
    text = SMALL.replace("count = 2", "count = 2.5").replace('phase = "longtx"', 'phase = "longtxx"')
    text += '\n[variants.x]\nproducers.rate = "fast"\n[variants.y]\nphases.baseline.duration = "5"\nseed = 3\n'
    assert find_lines(tmp_path, text, variant="y", overrides=["seed=x", "workers.poll=no"]) == [
        "workers.count is 2.5; expected a whole number",
        'expect[0].phase is "longtxx"; expected one of baseline, longtx; did you mean "longtx"?',
        'variants.x.producers.rate is "fast"; expected a number',
        'variants.y.phases.baseline.duration is "5"; expected a number with us, ms, s, m or h, like "90s"',
        '--set seed is "x"; expected a whole number',
        '--set workers.poll is "no"; expected a number with us, ms, s, m or h, like "90s"',
    ]
