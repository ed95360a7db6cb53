"""A run's folder in an older format gives one clear message, before any table is made."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stallbench.cli import main
from stallbench.errors import BadInputError
from stallbench.report.conclusion import conclude
from stallbench.run.folder import RunFolder
from tests.synthetic_run import SyntheticRun


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A whole run whose record says that it is in format 1, as an older version wrote it."""
    run = SyntheticRun(tmp_path / "20260101T000000Z-older").live(1, at_s=1)
    folder = run.write(final_snapshot={})
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "format": 1, "faults": [], "longrunners": []}))
    return folder


def message_of(folder: Path) -> str:
    return (
        f"{folder}/run.json: format 1 was written by an older stallbench; this version reads format 2; "
        "run the scenario again, or read it with the version that wrote it"
    )


def test_nothing_is_made_of_it(older: Path) -> None:
    def make_no_tables(folder: RunFolder) -> None:
        pytest.fail("the record was not read before the tables were made")

    with pytest.raises(BadInputError, match=f"^{re.escape(message_of(older))}$"):
        conclude(RunFolder(older), make_no_tables)
    assert not (older / "report.html").exists()


def test_the_command_prints_one_line_and_exits_with_2(
    older: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["stallbench", "report", str(older)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{message_of(older)}\n"
