"""What a test session publishes of its runs: a case for each finding in the JUnit file, and the Markdown summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from junitparser import JUnitXml, TestSuite

from stallbench.report.junit import write_suites

JUNIT = "junit.xml"
SUMMARY = "summary.md"


def add_cases(junit: Path, found: Sequence[tuple[str, Path]]) -> None:
    """Add the suite of each run to pytest's JUnit file. A case belongs to the class of its test: ``tests.test_queue.test_name.expectations``.

    ``found``: the id of the test and the folder, for each run. The second run of a test has suites and classes of its own, with ``run 2``, so that its
    cases do not replace those of the first. What pytest has written stays as it is.
    """
    if not junit.is_file():
        return
    suites: list[TestSuite] = list(_read(junit))
    runs: Counter[str] = Counter()
    for nodeid, folder in found:
        path = folder / JUNIT
        if not path.is_file():
            continue
        runs[nodeid] += 1
        number = f"run {runs[nodeid]}" if runs[nodeid] > 1 else ""
        for suite in _read(path):
            suite.name = f"{suite.name}: {nodeid}{number and f', {number}'}"  # suites with equal names would be merged
            for case in suite:
                check = str(case.classname or "").rpartition(".")[2]
                case.classname = ".".join(filter(None, (_class_of(nodeid), number, check)))
            suites.append(suite)
    write_suites(junit, suites)


def append_summaries(target: Path, folders: Sequence[Path]) -> None:
    """Append the Markdown summary of each run to ``target``."""
    texts = [(folder / SUMMARY).read_text() for folder in folders if (folder / SUMMARY).is_file()]
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a") as file:
        file.writelines(f"{text.rstrip()}\n\n" for text in texts)


def _read(path: Path) -> list[TestSuite]:
    xml = JUnitXml.fromfile(str(path))
    return [xml] if isinstance(xml, TestSuite) else list(xml)


def _class_of(nodeid: str) -> str:
    """Return the id of a test as pytest names classes: with points."""
    file, _, rest = nodeid.partition("::")
    return ".".join([file.removesuffix(".py").replace("/", "."), *rest.split("::")])
