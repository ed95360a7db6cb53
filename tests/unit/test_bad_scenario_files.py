"""What a file that is not a scenario gets, whatever it contains: one line, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stallbench.scenario.file import ScenarioError, find_scenarios, read_scenario, read_variants
from stallbench.scenario.toml import LARGEST_BYTES
from tests.unit.scenario_text import SMALL, find_lines, read, write

KNOWN = ", ".join(find_scenarios())
NOT_TOML = [
    ("summary = oops", "line 1, column 11: not valid TOML: invalid value; the line is `summary = oops`"),
    ('a = 1\na = "two"\n', 'line 2, column 10: not valid TOML: this key is given twice; the line is `a = "two"`'),
    (
        "[queue]\n[workers]\n[queue]",
        "line 3, column 7: not valid TOML: table [queue] is given twice; the line is `[queue]`",
    ),
    (
        "[variants.a]\n[variants.a]",
        "line 2, column 12: not valid TOML: table [variants.a] is given twice; the line is `[variants.a]`",
    ),
    (
        'queue = { kind = "que" }\nqueue.recheck = true\n',
        "line 2, column 21: not valid TOML: [queue] adds to a table that is already complete; the line is `queue.recheck = true`",
    ),
    (
        'summary = "open\nseed = 1',
        'line 1, column 16: not valid TOML: this text has no closing quote on its line; the line is `summary = "open`',
    ),
    ('summary = "never ends', 'line 1, at its end: not valid TOML: unterminated string; the line is `summary = "never ends`'),
    (
        "[[phases]\nname = 3",
        "line 1, column 9: not valid TOML: expected ']]' at the end of an array declaration; the line is `[[phases]`",
    ),
    ("# three\n# lines\nphases = [\n", "line 3, at its end: not valid TOML: invalid value; the line is `phases = [`"),
    (
        "just a sentence",
        "line 1, column 6: not valid TOML: expected '=' after a key in a key/value pair; the line is `just a sentence`",
    ),
    ('{"summary": "JSON"}', 'line 1, column 1: not valid TOML: invalid statement; the line is `{"summary": "JSON"}`'),
    ("a = '\x00'", "line 1, column 6: not valid TOML: found invalid character '\\x00'; the line is `a = '\\x00'`"),
    (f"a = {'7' * 5000}", "a whole number is too long; expected at most 64 bits"),
    (f"a = {'[' * 5000}", "tables or arrays are nested more than 16 deep"),
    (f"a = {'[' * 100}{']' * 100}", "tables or arrays are nested more than 16 deep"),
    (f"{'a.' * 5000}a = 1", "tables or arrays are nested more than 16 deep"),
    ("", "empty; docs/add-a-scenario.md describes what a scenario contains"),
    (" \n\n\t", "empty; docs/add-a-scenario.md describes what a scenario contains"),
]


@pytest.mark.parametrize(("text", "line"), NOT_TOML, ids=[text[:20] for text, _ in NOT_TOML])
def test_what_is_not_toml_is_reported_with_line_and_column(text: str, line: str, tmp_path: Path) -> None:
    assert find_lines(tmp_path, text) == [line]


def test_a_file_of_comments_alone_lacks_what_every_scenario_has(tmp_path: Path) -> None:
    assert find_lines(tmp_path, "# nothing yet") == [
        'summary is missing; write it like summary = "What happens, in one sentence."',
        'queue is missing; write it like [queue] kind = "que"',
        "producers is missing; write it like [producers] rate = 500",
        'phases is missing; write it like [[phases]] name = "baseline"',
    ]


def describe(name_or_path: str | Path) -> str:
    with pytest.raises(ScenarioError) as raised:
        read_scenario(str(name_or_path))
    return str(raised.value)


def test_bytes_that_are_not_text_are_reported_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b'summary = "x"\nqueue = "\xff\xfe"\n')
    assert describe(path) == f"{path}: line 2: not UTF-8 text; expected a TOML file"


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(1024**4)  # sparse: reading it would take minutes and all memory
    assert describe(path) == f"{path}: {1024**4:,} bytes long; a scenario has at most {LARGEST_BYTES:,}"


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    padded = SMALL + "#" * (LARGEST_BYTES - len(SMALL))
    assert read(tmp_path, padded).name == "small"


def test_a_folder_is_no_scenario(tmp_path: Path) -> None:
    assert describe(tmp_path) == f"{tmp_path}: a folder; expected a scenario file, like scenarios/longtx.toml"


def test_a_pipe_is_no_scenario_and_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe.toml"
    os.mkfifo(path)
    assert describe(path) == f"{path}: not a file; expected a scenario file, like scenarios/longtx.toml"


def test_a_device_is_no_scenario() -> None:
    assert describe("/dev/zero") == "/dev/zero: not a file; expected a scenario file, like scenarios/longtx.toml"


def test_a_file_without_read_permission_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, SMALL)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    # Tests may run as root, who may read everything.
    monkeypatch.setattr(Path, "open", refuse)
    assert describe(path) == f"{path}: cannot be read: Permission denied"


def test_a_loop_of_links_is_no_scenario(tmp_path: Path) -> None:
    path = tmp_path / "loop.toml"
    path.symlink_to(path)
    assert describe(path) == f"{path}: there is no such file"


def test_a_missing_file_is_reported_with_the_most_similar_scenario(tmp_path: Path) -> None:
    assert describe(tmp_path / "longtxx.toml") == f'{tmp_path}/longtxx.toml: there is no such file; did you mean "longtx"?'
    assert describe("nowhere/at-all") == "nowhere/at-all: there is no such file"


def test_an_unknown_name_is_reported_with_all_scenarios() -> None:
    assert describe("longt") == f'there is no scenario "longt"; did you mean "longtx"? Expected one of {KNOWN}'
    assert describe("nothing-like-it") == f'there is no scenario "nothing-like-it"; expected one of {KNOWN}'
    assert describe("") == f'there is no scenario ""; expected one of {KNOWN}'


@pytest.mark.parametrize("name", ["x" * 5000, "null\0character", "two\nlines", "\udcff"])
def test_a_name_that_no_file_can_have_is_reported_in_one_printable_line(name: str) -> None:
    for asked in (name, f"{name}.toml"):
        line = describe(asked)
        assert line.isprintable()
        assert "there is no" in line


def test_a_file_has_the_name_of_a_scenario(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL, "My Scenario.toml")
    assert describe(path) == (
        f'{path}: the file is named "My Scenario"; expected a name of up to 63 small letters, digits, - and _,'
        " the first a letter, and .toml"
    )


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert read_scenario(str(path)).summary == "A small one."


def test_variants_cannot_be_listed_of_what_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="variants is 3; expected tables"):
        read_variants(write(tmp_path, "variants = 3"))
