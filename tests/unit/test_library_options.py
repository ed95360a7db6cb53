"""Options in ``library.toml`` that no run could use are found when the definition is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stallbench.libraries import LibraryError
from tests.libraries.made_up import read_changed

OPTIONS = "[options.concurrency]"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            OPTIONS,
            '[options.mode]\ndefault = "fast"\nat_least = 1\ndescription = "a mode"\n\n[options.concurrency]',
            "options.mode: at_least is for a number, but default is 'fast'; expected a number as default, or no at_least",
        ),
        (
            OPTIONS,
            '[options.mode]\ndefault = true\nrole = "expiry"\ndescription = "a mode"\n\n[options.concurrency]',
            'options.mode: role = "expiry" is for a number, but default is True',
        ),
        ("at_least = 1", "at_least = 2", "options.concurrency: default is 1; expected at_least, 2, or more"),
        (
            "at_least = 1",
            'at_least = 1\nengines = ["postgresql"]',
            "options.concurrency: engines: there is no engine postgresql; expected postgres, aerospike",
        ),
        (OPTIONS, "[options._mode]", 'library.toml: options: "_mode" is no name of an option; expected lower-case letters'),
        (OPTIONS, "[options.kind]", 'library.toml: options: "kind" cannot be the name of an option, because the bench uses it'),
        (OPTIONS, "[options.model_dump]", 'options: "model_dump" cannot be the name of an option'),
        (
            "[start]",
            '[advisory_locks]\nat_most = 1\nfor_each = "threads"\n\n[start]',
            'library.toml: advisory_locks.for_each is "threads"; expected one with a number: concurrency, polling_interval',
        ),
        ('engines = ["postgres"]', 'engines = ["postgresql"]', "library.toml: engines: there is no engine postgresql; expected"),
    ],
)
def test_an_option_that_no_run_could_use_is_one_line(tmp_path: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(LibraryError, match=re.escape(message)) as raised:
        read_changed(tmp_path, before, after)
    assert "\n" not in str(raised.value)
