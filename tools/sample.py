"""``python -m tools.sample RUN``: makes ``reports/sample`` of a run, and ``docs/report.png``, the picture of its page.

The event logs and the output of processes are left out: the sealed records hold every event. The pages are made again, by the present code. The
picture needs Chromium; without it only the picture stays as it is.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from stallbench import PROJECT
from stallbench.records.sealing import remove_event_logs
from stallbench.report import make_report
from stallbench.run.folder import RUNS, find_run_folder
from stallbench.verdicts import RunTables, judge

SAMPLE = PROJECT / "reports" / "sample"
PICTURE = PROJECT / "docs" / "report.png"
_SIZE = "1200,1225"
_OWN = "README.md"
"""Written by hand, so it stays."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def make_sample(run: Path) -> None:
    """Replace the sample by a copy of ``run``, with new pages."""
    page = (SAMPLE / _OWN).read_text()
    shutil.rmtree(SAMPLE)
    shutil.copytree(run, SAMPLE, ignore=shutil.ignore_patterns("*.log"))
    remove_event_logs(SAMPLE)
    (SAMPLE / _OWN).write_text(page)
    tables = RunTables(SAMPLE)
    make_report(tables, judge(tables))


def take_picture() -> bool:
    """Take the picture of the beginning of the sample's page; returns whether there is a browser to do it."""
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        return False
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        taken = ["--virtual-time-budget=2000", f"--window-size={_SIZE}", f"--screenshot={PICTURE}"]
        subprocess.run(
            [browser, *options, *taken, (SAMPLE / "report.html").as_uri()], check=True, capture_output=True, timeout=120
        )
    return True


def main() -> None:
    """Make both."""
    parser = argparse.ArgumentParser(prog="python -m tools.sample", description=__doc__)
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name below reports/runs")
    make_sample(find_run_folder(parser.parse_args().run, RUNS).path)
    if not take_picture():
        sys.exit(f"{PICTURE.name} was not made again: install one of {', '.join(_BROWSERS)}")


if __name__ == "__main__":
    main()
