"""The manifests in containers/kubernetes are what Kubernetes accepts, and agree with the versions that are locked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
MANIFESTS = sorted((PROJECT / "containers" / "kubernetes").glob("*.yaml"))
KUBERNETES = ("1.30", "1.34")
"""The oldest and the newest version that the manifests are for."""


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_each_object_agrees_with_the_schema_of_its_kind(path: Path, version: str) -> None:
    for document in documents(path):
        kubernetes_validate.validate(document, version, strict=True)


def test_a_key_that_its_kind_does_not_have_is_found() -> None:
    job = next(document for document in documents(MANIFESTS[-1]) if document["kind"] == "Job")
    job["spec"]["paralelism"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, KUBERNETES[0], strict=True)


def test_the_executors_have_the_locked_version_of_spark() -> None:
    (locked,) = re.findall(r"^pyspark==(\S+)", (PROJECT / "requirements" / "python.lock").read_text(), re.MULTILINE)
    assert (
        f"spark.kubernetes.container.image=apache/spark:{locked}" in (PROJECT / "containers/kubernetes/report.yaml").read_text()
    )


def test_every_claim_secret_and_service_that_is_referred_to_is_there_or_documented() -> None:
    text = "".join(path.read_text() for path in MANIFESTS)
    names = {(document["kind"], document["metadata"]["name"]) for path in MANIFESTS for document in documents(path)}
    for claim in re.findall(r"claimName[:=]\s*([\w-]+)", text):
        assert ("PersistentVolumeClaim", claim) in names
    for host in re.findall(r"--master-host=([\w-]+)", text):
        assert ("Service", host) in names
    for config in re.findall(r"configMap: { name: ([\w-]+) }", text):
        assert ("ConfigMap", config) in names
    assert "kubectl create secret generic stallbench" in text


def test_a_run_with_processes_on_other_hosts_has_a_toxiproxy_that_they_reach() -> None:
    """The bench's own Toxiproxy listens on loopback, and its address is what the other processes are given."""
    documents_of_run = documents(PROJECT / "containers" / "kubernetes" / "run.yaml")
    (arguments,) = (
        document["spec"]["template"]["spec"]["containers"][0]["args"]
        for document in documents_of_run
        if document["metadata"]["name"] == "stallbench-run"
    )
    assert "--set=external_processes=true" in arguments
    (address,) = (argument.removeprefix("--toxiproxy=") for argument in arguments if argument.startswith("--toxiproxy="))
    url = urlsplit(address)
    (service,) = (one for one in documents_of_run if one["kind"] == "Service" and one["metadata"]["name"] == url.hostname)
    (config,) = (one for one in documents_of_run if one["kind"] == "ConfigMap")
    proxies = json.loads(config["data"]["proxies.json"])
    listening = {int(proxy["listen"].rpartition(":")[2]) for proxy in proxies}
    assert {port["port"] for port in service["spec"]["ports"]} == {url.port} | listening
    (deployment,) = (one for one in documents_of_run if one["kind"] == "Deployment")
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert {proxy["name"] for proxy in proxies} == {
        argument.removeprefix("--dsn=").partition("=")[0] for argument in arguments if argument.startswith("--dsn=")
    }


def test_every_pod_has_a_policy_that_names_who_may_connect_and_no_pod_runs_as_root() -> None:
    for path in MANIFESTS:
        policies = [document["spec"]["podSelector"] for document in documents(path) if document["kind"] == "NetworkPolicy"]
        for document in documents(path):
            if document["kind"] not in ("Job", "Deployment"):
                continue
            template = document["spec"]["template"]
            app = template["metadata"]["labels"]["app"]
            selected = [
                one
                for one in policies
                if one.get("matchLabels") == {"app": app}
                or any(app in each["values"] for each in one.get("matchExpressions", []))
            ]
            assert len(selected) == 1, app
            assert template["spec"]["securityContext"]["runAsNonRoot"] is True
            for container in template["spec"]["containers"]:
                assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_only_the_bench_reaches_the_api_of_toxiproxy() -> None:
    (policy,) = (
        one
        for one in documents(PROJECT / "containers" / "kubernetes" / "run.yaml")
        if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == "stallbench-toxiproxy"
    )
    allowed = [rule["from"] for rule in policy["spec"]["ingress"] if any(port["port"] == 8474 for port in rule["ports"])]
    assert allowed == [[{"podSelector": {"matchLabels": {"app": "stallbench-run"}}}]]
