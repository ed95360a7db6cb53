"""What another user of the machine can read, change, and make the bench do: nothing."""

from __future__ import annotations

from pathlib import Path

from stallbench.run.folder import create_run_folder
from tests.security.conftest import OtherUser
from tests.unit.test_compose import FOLDER, without_variants


def test_a_run_s_records_are_for_its_user_alone(tmp_path: Path, other_user: OtherUser) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    run = create_run_folder(without_variants(FOLDER / "scenarios" / "longtx.toml"), tmp_path)
    run.record.write_text("{}")
    assert other_user.run(["ls", tmp_path]).returncode == 0, "the other user reaches the folder of all runs"
    assert "Permission denied" in other_user.run(["cat", run.record]).stderr
