"""Which characters of a text are made visible, and which are visible already."""

import sys
import unicodedata

import pytest

from stallbench.visible_text import VisibleText, is_visible, make_visible, raw_of, read_text

pytestmark = pytest.mark.slow


def test_every_control_format_and_private_character_is_written() -> None:
    hidden = [
        chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    ]
    left = [character for character in hidden if character in make_visible(f"a{character}b", in_one_line=True)]
    assert left == []


def test_no_other_character_is_written_but_those_that_are_drawn_as_nothing() -> None:
    others = (chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] not in "CM")
    written = {character for character in others if not is_visible(f"a{character}b")}
    assert written == set("\u2028\u2029\u115f\u1160\u3164\uffa0")
    marks = (chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M")
    written = {mark for mark in marks if not is_visible(f"a{mark}b")}
    selectors = {chr(code) for code in (*range(0x180B, 0x1810), *range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))}
    assert written == (selectors | set("\u034f\u17b4\u17b5")) - {"\u180e"}


def test_no_mark_is_drawn_over_another_line() -> None:
    marks = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"]
    over = [
        mark
        for mark in marks
        if mark in make_visible(mark * 300)
        or make_visible("a" + mark * 300).count(mark) > 4
        or make_visible("a\n" + mark).endswith(mark)
    ]
    assert over == []


@pytest.mark.parametrize(
    "text",
    [
        "Aufträge für Köln: 100 %",
        "Auftra\u0308ge",  # decomposed
        "任务队列\u3000日本語",
        "ต้น, हिन्दी, tiếng Việt, שָׁלוֹם",
        "🚀 ❤\ufe0f 1\ufe0f\u20e3",
        "prix\u00a0: 3\u202f€",
        r"C:\temp\x1b",
    ],
)
def test_a_visible_text_stays(text: str) -> None:
    assert make_visible(text, in_one_line=True) == text
    assert read_text(text) is text


def test_notation() -> None:
    assert make_visible("\x1b]52;c;eA==\x07\x08\u202e\U000e0041") == r"\x1b]52;c;eA==\x07\x08\u202e\U000e0041"
    assert make_visible("a\r\nb\tc\rd") == "a\nb\tc\\x0dd"
    assert make_visible("a\nb\tc", in_one_line=True) == r"a\x0ab\x09c"
    assert make_visible("\u0301\ufe0fa\ufe0f\ufe0f") == r"\u0301\ufe0fa" + "\ufe0f" + r"\ufe0f"


def test_what_the_server_has_is_kept_for_sql() -> None:
    text = read_text("jobs\u202e")
    assert isinstance(text, VisibleText)
    assert (text, raw_of(text), raw_of("jobs")) == (r"jobs\u202e", "jobs\u202e", "jobs")


def test_to_make_it_visible_again_changes_nothing() -> None:
    once = make_visible("\u0301a\u0301\u0301\u0301\u0301\u0301\x1b\ufe0f\n\u0301")
    assert make_visible(once) == once
