"""Generated parts of pages: written where their markers are, with footnotes that say what is stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.errors import BadInputError
from stallbench.evidence.collection import Collection
from tools import results_tables
from tools.generated_blocks import Footnotes, fill, write_blocks

MARKS = "before\n<!-- made-up: begin -->\nOLD\n<!-- made-up: end -->\nafter\n"


def test_a_block_is_replaced_on_the_page_that_has_its_markers(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    page.write_text(MARKS)
    other.write_text("nothing\n")
    write_blocks([other, page], {"made-up": ["new"]})
    assert page.read_text() == "before\n<!-- made-up: begin -->\n\nnew\n\n<!-- made-up: end -->\nafter\n"
    assert other.read_text() == "nothing\n"


@pytest.mark.parametrize(("text", "why"), [("nothing\n", "no page has"), (MARKS, "several pages have")])
def test_a_block_that_is_not_on_one_page_is_refused(tmp_path: Path, text: str, why: str) -> None:
    pages = [tmp_path / "one.md", tmp_path / "two.md"]
    for page in pages:
        page.write_text(text)
    with pytest.raises(BadInputError, match=f"{why} the block made-up; one page needs the lines <!-- made-up: begin -->"):
        write_blocks(pages, {"made-up": []})


def test_what_is_stale_has_a_mark_and_a_reason() -> None:
    footnotes = Footnotes()
    cells = [footnotes.refer_to("A."), footnotes.refer_to("B.", ["it is old", "it is wrong"]), footnotes.refer_to("A.")]
    assert cells == ["1", "2 *stale*", "1"]
    assert list(footnotes.add_to(cells)) == [*cells, "", "1. A.", "2. B. *Stale*: it is old; it is wrong."]


def test_a_reason_that_all_have_is_said_once() -> None:
    footnotes = Footnotes()
    cells = [footnotes.refer_to("A.", ["measured long ago"]), footnotes.refer_to("B.", ["measured long ago"])]
    assert list(footnotes.add_to(cells)) == ["*Stale: all of this was measured long ago.*", "", "1", "2", "", "1. A.", "2. B."]


def test_the_results_pages_are_current() -> None:
    """Repeat ``python -m tools.results_tables`` after a change of ``evidence/``, of a scenario's summary or of a rule."""
    pages = [*results_tables.PAGES, results_tables.README]
    assert {page: page.read_text() for page in pages} == fill(pages, results_tables.make_blocks(Collection()))
