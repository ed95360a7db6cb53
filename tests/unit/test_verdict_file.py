"""``verdict.json`` of a run is read by studies, whose folder somebody may have sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stallbench import PROJECT
from stallbench.errors import NotCarriedOutError
from stallbench.verdicts.verdict_file import read_verdict


def test_a_verdict_is_read_as_it_was_written() -> None:
    folder = PROJECT / "reports" / "sample"
    written = json.loads((folder / "verdict.json").read_text())
    verdict = read_verdict(folder)
    assert (verdict.verdict, verdict.reason) == (written["verdict"], written["reason"])
    assert [finding.check for finding in verdict.findings] == [finding["check"] for finding in written["findings"]]


@pytest.mark.parametrize("content", ["{}", "[]", "[" * 200_000, "no json", ""], ids=["empty", "list", "deep", "text", "nothing"])
def test_one_that_cannot_be_read_is_one_message_with_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / "verdict.json").write_text(content)
    with pytest.raises(NotCarriedOutError, match=r"verdict\.json: no verdict: .*; make it again by: stallbench report"):
        read_verdict(tmp_path)
