"""Installs the dashboards in Grafana: ``stallbench dashboards push``. A second push only updates them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from grafana_client.client import GrafanaClientError

from stallbench import PROJECT
from stallbench.run.observers.grafana import GrafanaAddress, GrafanaRefusedError

DASHBOARDS = PROJECT / "dashboards"
FOLDER_UID, FOLDER_TITLE = "stallbench", "Stallbench"
SOURCE_UID, SOURCE_NAME = "stallbench-prometheus", "Stallbench's Prometheus"
_NOT_FOUND = 404


def read_dashboards() -> list[dict[str, Any]]:
    """Return the dashboards in ``dashboards/``, in Grafana's format."""
    return [json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))]


def push_dashboards(address: GrafanaAddress, prometheus_url: str | None = None) -> Iterator[str]:
    """Create or update the folder, the data source if ``prometheus_url`` is given, and the dashboards; yield a sentence for each.

    Raises `GrafanaRefusedError`.
    """
    api = address.connect()
    if _found(address, "find its folder", lambda: api.folder.get_folder(FOLDER_UID)) is None:
        address.ask("create a folder", lambda: api.folder.create_folder(FOLDER_TITLE, uid=FOLDER_UID))
        yield f"folder {FOLDER_TITLE}: created"
    else:
        yield f"folder {FOLDER_TITLE}: already exists"
    if prometheus_url is not None:
        yield f"data source {SOURCE_NAME}: {_push_source(address, api, prometheus_url)}"
    for dashboard in read_dashboards():
        content = {"dashboard": dashboard, "folderUid": FOLDER_UID, "overwrite": True, "message": "stallbench dashboards push"}
        answer = address.ask("save a dashboard", partial(api.dashboard.update_dashboard, content))
        if not isinstance(answer, dict) or answer.get("status") != "success":
            raise GrafanaRefusedError(
                f"what answers at {address.url} is not Grafana: it did not confirm that it saved a dashboard"
            )
        yield f"dashboard {dashboard['title']}: {address.url}{answer.get('url', '')}"


def _push_source(address: GrafanaAddress, api: Any, prometheus_url: str) -> str:
    source = {
        "uid": SOURCE_UID,
        "name": SOURCE_NAME,
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus_url,
        "jsonData": {"timeInterval": "1s"},
    }
    there = _found(address, "find its data source", lambda: api.datasource.get_datasource_by_uid(SOURCE_UID))
    if there is None:
        address.ask("create a data source", lambda: api.datasource.create_datasource(source))
        return f"created, for {prometheus_url}"
    if there.get("url") == prometheus_url:
        return f"already exists, for {prometheus_url}"
    address.ask("change its data source", lambda: api.datasource.update_datasource_by_uid(SOURCE_UID, source))
    return f"changed, to {prometheus_url}"


def _found(address: GrafanaAddress, purpose: str, call: Any) -> dict[str, Any] | None:
    def look() -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = call()
        except GrafanaClientError as error:
            if error.status_code == _NOT_FOUND:
                return None
            raise
        if not isinstance(found, dict):
            raise GrafanaRefusedError(f"what answers at {address.url} is not Grafana: it could not {purpose}")
        return found

    return address.ask(purpose, look)
