"""The record of a study that somebody has written: what it names is there, or it is refused with one message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import BadInputError
from tests.unit.made_up_comparison import make_made_up_record


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"runs": [{"variant": "x"}]}, "there is no variant 'x'"),
        ({"variants": [{"reference": "x"}]}, "there is no variant 'x'"),
        ({"variants": [{"judged_by": "x"}]}, "there is no subject 'x'"),
        ({"columns": {"a": "x"}}, "there is no subject 'x'"),
        ({"variants": []}, "there are no variants, or no subjects"),
        ({"subjects": []}, "there are no variants, or no subjects"),
    ],
    ids=str,
)
def test_a_comparison_that_names_what_it_does_not_have_is_one_message(tmp_path: Path, wrong: dict[str, Any], words: str) -> None:
    folder, _ = make_made_up_record({"control": [1.0], "skip_locked": [2.0]}, tmp_path)
    path = folder.path / "study.json"
    content = json.loads(path.read_text())
    for key, value in wrong.items():
        if isinstance(value, list) and value:
            content[key][0] |= value[0]
        else:
            content[key] = value
    path.write_text(json.dumps(content))
    with pytest.raises(BadInputError, match=f"study.json: not a study's record: .*{words}"):
        folder.read()
