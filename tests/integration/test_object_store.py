"""Runs in a bucket of a real S3 server: their upload, their verdict and report there, and what a user gets when something is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3fs import S3FileSystem

from stallbench.base.storage.address import open_address
from stallbench.cli import main
from stallbench.commands.endings import move_run
from stallbench.pipeline.s3a import add_s3a, find_credentials
from stallbench.report import make_report
from stallbench.run.folder import find_run_at
from stallbench.run.upload import upload
from stallbench.verdicts import RunTables, judge
from tests.s3_server import BUCKET, SECRET_KEY, S3Server, start_s3_server
from tests.unit.made_up_run import make_run

SAMPLE = Path(__file__).resolve().parents[1] / "small_run"
RUNS = f"s3://{BUCKET}/runs"

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with start_s3_server(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture
def store(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> S3Server:
    """The server, which this process can use; nothing but the environment has credentials."""
    for name, value in {**server.environment, **without_profiles(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return server


def without_profiles(folder: Path) -> dict[str, str]:
    return {"AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"), "AWS_CONFIG_FILE": str(folder / "config")}


class Command:
    """The command line, in this process: most of the time of a process of its own would be its start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; returns its exit code, and what it printed as its output and as its error."""
        self._monkeypatch.setattr("sys.argv", ["stallbench", *arguments])
        S3FileSystem.clear_instance_cache()  # a new process has none
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, *self._capsys.readouterr()


@pytest.fixture
def stallbench(store: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "changes", "code", "expected"),
    [
        (["report", "s3://no-such-bucket/runs/one"], {}, 2, "the specified bucket does not exist"),
        (["report", f"s3a://{BUCKET}/runs/none"], {}, 2, "not a run's folder: it has no run.json"),
        (["report", f"{RUNS}/one"], {"AWS_SECRET_ACCESS_KEY": "wrong"}, 2, "access is denied"),
        (
            ["report", f"{RUNS}/one"],
            {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None},
            2,
            "unable to locate credentials; set AWS_PROFILE",
        ),
        (
            ["report", f"{RUNS}/one"],
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"},
            3,
            "could not connect to the endpoint URL",
        ),
        (["report", f"{RUNS}/one"], {"AWS_ENDPOINT_URL": "nowhere"}, 2, "invalid endpoint: nowhere; set AWS_ENDPOINT_URL"),
        (["report", f"{RUNS}/one"], {"AWS_PROFILE": "none"}, 2, "the config profile (none) could not be found"),
        (["run", "baseline", "--runs", "s3://no-such-bucket/runs"], {}, 2, "the specified bucket does not exist"),
        (["upload", str(SAMPLE), "s3://no-such-bucket/runs"], {}, 2, "the specified bucket does not exist"),
    ],
    ids=[
        "no bucket",
        "no run",
        "wrong key",
        "no key",
        "no server",
        "no endpoint",
        "no profile",
        "run: no bucket",
        "upload: no bucket",
    ],
)
def test_what_is_missing_is_said_in_one_line(
    stallbench: Command,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    changes: dict[str, str | None],
    code: int,
    expected: str,
) -> None:
    for name, value in changes.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    ended, _, printed = stallbench(*command)
    assert ended == code, printed
    address = next(argument for argument in command if argument.startswith("s3"))
    assert printed.startswith(f"{address}: {expected}")
    assert printed.count("\n") == 1
    assert SECRET_KEY not in printed


def test_an_uploaded_run_is_judged_and_reported_where_it_is(store: S3Server, stallbench: Command, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    here = make_run(folder)
    ended, printed, error = stallbench("upload", str(folder), RUNS)
    assert (ended, printed) == (0, f"uploaded: {RUNS}/one\n"), error
    stored = store.objects / "runs" / "one"
    assert files_in(stored) == files_in(folder)

    there = RunTables(find_run_at(f"s3a://{BUCKET}/runs/one"))
    make_report(there, judge(there))
    make_report(here, judge(here))
    assert files_in(stored) == files_in(folder)


def test_a_run_that_cannot_be_uploaded_stays_and_the_printed_command_uploads_it(
    store: S3Server, stallbench: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "20300101T000000Z-longtx"
    shutil.copytree(SAMPLE, folder)
    assert not move_run(folder, open_address("s3://made-later/runs"))
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"the upload failed: s3://made-later/runs/{folder.name}: the specified bucket does not exist" in said
    assert {name: content for name, content in files_in(folder).items() if not name.startswith("sealed/")} == files_in(SAMPLE)

    (store.objects.parent / "made-later").mkdir()
    again = said.partition("repeat by: stallbench ")[2].split()
    assert again[0] == "upload"
    assert stallbench(*again)[0] == 0
    assert files_in(store.objects.parent / "made-later" / "runs" / folder.name) == files_in(folder)


def test_a_file_in_many_parts_arrives_whole(store: S3Server, tmp_path: Path) -> None:
    content = os.urandom(2**20) * 120
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    (tmp_path / "run" / "events.csv").write_bytes(content)
    upload(tmp_path / "run", open_address(f"{RUNS}/large"))
    assert (store.objects / "runs/large/events.csv").read_bytes() == content


def test_spark_gets_the_store_and_the_credentials_of_a_profile(
    store: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find_credentials() == {}, "Spark itself reads the environment"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[bench]\naws_access_key_id = a\naws_secret_access_key = b\naws_session_token = c\n")
    (tmp_path / "config").write_text(f"[profile bench]\nregion = eu-west-1\nendpoint_url = {store.endpoint}\n")
    monkeypatch.setenv("AWS_PROFILE", "bench")
    assert find_credentials() == {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}

    (tmp_path / "spark-defaults.conf").write_text("spark.jars /own.jar\nspark.hadoop.fs.s3a.endpoint.region of-the-user\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    settings = add_s3a({"spark.executor.memory": "4g"})
    jars = settings.pop("spark.jars").split(",")
    assert jars[0] == "/own.jar"
    assert any("hadoop-aws" in jar for jar in jars)
    assert settings == {
        "spark.executor.memory": "4g",
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert "spark.jars" not in add_s3a({"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"})
