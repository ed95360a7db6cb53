"""Copies of a recorded run, each damaged in another way: a report is made or refused with one message, and never passes without its records."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stallbench.errors import StallbenchError
from stallbench.pipeline.make import write_tables
from stallbench.report import make_report
from stallbench.run.record import read_record
from stallbench.verdicts import RunTables, judge

SAMPLE = Path(__file__).resolve().parents[1] / "small_run"
RECORDS = ("run.json", "events", "samples", "final_snapshot.csv", "statements.jsonl")
COPIES = 300
Damage = Callable[[random.Random, bytes], bytes | None]


def flip_bytes(draw: random.Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(draw.choice((1, 3, 50))):
        damaged[draw.randrange(len(damaged))] = draw.randrange(256)
    return bytes(damaged)


def put_in_bytes(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content))
    return (
        content[:at] + draw.choice((b"\xff", b"\0" * 5000, b"\r\n", b"," * 20_000, b'"', b"\n\n", b"[" * 100_000)) + content[at:]
    )


DAMAGES: dict[str, Damage] = {
    "bytes flipped": flip_bytes,
    "bytes put in": put_in_bytes,
    "cut": lambda draw, content: content[: draw.randrange(len(content))],
    "its beginning cut": lambda draw, content: content[draw.randrange(1, len(content)) :],
    "doubled": lambda _, content: content * 2,
    "emptied": lambda *_: b"",
    "removed": lambda *_: None,
    "foreign": lambda draw, _: draw.randbytes(3000),
}


def damage_copy(folder: Path, draw: random.Random) -> tuple[str, str]:
    """Copy the records of the sample to ``folder`` and damage one of its files; returns which file and how."""
    folder.mkdir()
    for name in RECORDS:
        source = SAMPLE / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    kinds = [
        [
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.stat().st_size and path.relative_to(folder).parts[0] == name
        ]
        for name in RECORDS
    ]
    path = draw.choice(draw.choice(kinds))
    how = draw.choice(list(DAMAGES))
    content = DAMAGES[how](draw, path.read_bytes())
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    return path.relative_to(folder).as_posix(), how


def report(spark: SparkSession, folder: Path) -> str:
    """Make the report of a run as the command does; returns the verdict, or ``refused``."""
    try:
        read_record(folder / "run.json")
        write_tables(spark, folder)
        tables = RunTables(folder)
        verdict = judge(tables)
        make_report(tables, verdict)
    except (StallbenchError, FileNotFoundError):
        return "refused"
    return verdict.verdict


def needs(name: str, how: str) -> bool:
    """Whether the verdict of the sample needs what this damage takes away for sure. All its jobs were completed, so it needs no final snapshot."""
    return how in ("emptied", "removed", "foreign") and name.startswith(("run.json", "events/"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, COPIES // 6))])
def test_a_damaged_run_ends_with_one_message_or_an_honest_verdict(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(6):
        folder = tmp_path / str(number)
        name, how = damage_copy(folder, draw)
        verdict = report(spark, folder)
        assert verdict in ("pass", "fail", "unknown", "refused"), (name, how)
        if needs(name, how):
            assert verdict != "pass", (name, how)
        shutil.rmtree(folder)


@pytest.mark.parametrize("time", [b"1000000000", b"9000000000000000000", b"-5"])
def test_a_time_that_is_damaged_is_one_message_and_not_a_row_for_each_second_since(
    spark: SparkSession, tmp_path: Path, time: bytes
) -> None:
    folder = tmp_path / "run"
    damage_copy(folder, random.Random(0))
    shutil.copytree(SAMPLE / "events", folder / "events", dirs_exist_ok=True)
    shutil.copy(SAMPLE / "run.json", folder)
    log = folder / "events" / "worker-2.csv"
    first, _, others = log.read_bytes().partition(b"\n")
    log.write_bytes(time + first[first.index(b",") :] + b"\n" + others)
    with pytest.raises(StallbenchError, match=r"its records are of .* days, .*events/worker-2\.csv"):
        write_tables(spark, folder)
