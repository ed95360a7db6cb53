"""Which Spark computes the tables is read from the command line, and no secret is accepted there."""

from __future__ import annotations

import pytest

from stallbench.errors import EXIT_BAD_INPUT
from stallbench.pipeline.failures import MasterError, SettingError
from stallbench.pipeline.spark_options import SparkOptions, read_spark_options


def test_settings_are_passed_on_as_they_are() -> None:
    options = read_spark_options("spark://host:7077", ["spark.executor.memory=4g", "spark.driver.extraJavaOptions=-Da=b -Dc=d"])
    assert options == SparkOptions(
        "spark://host:7077", {"spark.executor.memory": "4g", "spark.driver.extraJavaOptions": "-Da=b -Dc=d"}
    )
    assert options.as_arguments() == [
        "--master",
        "spark://host:7077",
        "--spark-conf=spark.executor.memory=4g",
        "--spark-conf=spark.driver.extraJavaOptions=-Da=b -Dc=d",
    ]


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[4]", True), ("spark://a:1,b:2", False), ("yarn", False), ("k8s://a:1", False)],
)
def test_only_a_local_master_is_on_this_machine(master: str, is_local: bool) -> None:
    assert read_spark_options(master, []).is_local == is_local


def test_a_master_that_is_none_is_bad_input() -> None:
    with pytest.raises(MasterError) as error:
        read_spark_options("nonsense", [])
    assert error.value.exit_code == EXIT_BAD_INPUT


@pytest.mark.parametrize("setting", ["executor.memory=4g", "spark.executor.memory", "=", ""])
def test_what_is_no_setting_is_bad_input(setting: str) -> None:
    with pytest.raises(SettingError, match="expected NAME=VALUE with a name that begins with spark") as error:
        read_spark_options("yarn", [setting])
    assert error.value.exit_code == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.ssl.keyStorePassword",
        "spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net",
    ],
)
def test_a_secret_is_refused_without_repeating_it(name: str) -> None:
    with pytest.raises(SettingError, match=r"process lists would show this secret; set it in spark-defaults\.conf") as error:
        read_spark_options("yarn", [f"{name}=hunter2"])
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "name", ["spark.kubernetes.authenticate.submission.oauthTokenFile", "spark.hadoop.fs.s3a.aws.credentials.provider"]
)
def test_the_name_of_a_file_or_a_class_is_no_secret(name: str) -> None:
    assert read_spark_options("yarn", [f"{name}=x"]).settings == {name: "x"}
