"""A stand-in for Grafana's HTTP API: the few endpoints that the bench uses, as Grafana documents them; it is no Grafana.

It checks what it gets as the documentation says (token, JSON, required fields, limits of uids) and keeps what it took.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

TOKEN = "glsa_of-the-stand-in"


class GrafanaStandIn:
    """What it holds, and how it is to misbehave."""

    def __init__(self) -> None:
        self.url = ""
        self.folders: dict[str, dict[str, Any]] = {}
        self.sources: dict[str, dict[str, Any]] = {}
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.annotations: dict[int, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.refuse_with: tuple[int, str] | None = None
        """Status and message with which every request is refused."""
        self.is_other_page = False
        """Whether it answers like some other web server."""


class _Handler(BaseHTTPRequestHandler):
    stand_in: ClassVar[GrafanaStandIn]

    def _answer(self) -> None:
        stand_in = self.stand_in
        stand_in.requests.append(f"{self.command} {self.path}")
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        if stand_in.is_other_page:
            self._send(200, "<html>welcome</html>", "text/html")
            return
        if stand_in.refuse_with:
            status, message = stand_in.refuse_with
            self._send(status, {"message": message})
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, {"message": "Invalid API key"})
            return
        try:
            body = json.loads(text) if text else {}
        except ValueError:
            self._send(400, {"message": "bad request data"})
            return
        self._send(*self._route(body))

    do_GET = do_POST = do_PUT = do_PATCH = _answer

    def _route(self, body: dict[str, Any]) -> tuple[int, Any]:
        routes: dict[tuple[str, str], Callable[..., tuple[int, Any]]] = {
            ("GET", r"/api/folders/([\w-]{1,40})"): self._get_folder,
            ("POST", r"/api/folders"): self._make_folder,
            ("GET", r"/api/datasources/uid/([\w-]{1,40})"): self._get_source,
            ("POST", r"/api/datasources"): self._make_source,
            ("PUT", r"/api/datasources/uid/([\w-]{1,40})"): self._change_source,
            ("POST", r"/api/dashboards/db"): self._save_dashboard,
            ("POST", r"/api/annotations"): self._add_annotation,
            ("PUT", r"/api/annotations/(\d+)"): self._change_annotation,
        }
        for (method, pattern), act in routes.items():
            found = re.fullmatch(pattern, self.path)
            if found and method == self.command:
                return act(body, *found.groups())
        return 404, {"message": "Not found"}

    def _get_folder(self, body: dict[str, Any], uid: str) -> tuple[int, Any]:
        found = self.stand_in.folders.get(uid)
        return (200, found) if found else (404, {"message": "folder not found", "status": "not-found"})

    def _make_folder(self, body: dict[str, Any]) -> tuple[int, Any]:
        if not body.get("title"):
            return 400, {"message": "folder title cannot be empty"}
        if body["uid"] in self.stand_in.folders:
            return 409, {"message": "a folder with the same uid already exists"}
        folder = {"id": 1, "uid": body["uid"], "title": body["title"], "version": 1}
        self.stand_in.folders[body["uid"]] = folder
        return 200, folder

    def _get_source(self, body: dict[str, Any], uid: str) -> tuple[int, Any]:
        found = self.stand_in.sources.get(uid)
        return (200, found) if found else (404, {"message": "Data source not found"})

    def _make_source(self, body: dict[str, Any]) -> tuple[int, Any]:
        if missing := {"name", "type", "access", "url"} - set(body):
            return 400, {"message": f"bad request data: {missing}"}
        if body["uid"] in self.stand_in.sources:
            return 409, {"message": "data source with the same name already exists"}
        self.stand_in.sources[body["uid"]] = body
        return 200, {"datasource": body, "id": 1, "message": "Datasource added", "name": body["name"]}

    def _change_source(self, body: dict[str, Any], uid: str) -> tuple[int, Any]:
        if uid not in self.stand_in.sources:
            return 404, {"message": "Data source not found"}
        self.stand_in.sources[uid] = body
        return 200, {"datasource": body, "id": 1, "message": "Datasource updated", "name": body["name"]}

    def _save_dashboard(self, body: dict[str, Any]) -> tuple[int, Any]:
        dashboard = body.get("dashboard") or {}
        uid = dashboard.get("uid", "")
        if not dashboard.get("title"):
            return 400, {"message": "Dashboard title cannot be empty"}
        if len(uid) > 40 or dashboard.get("id") is not None:
            return 400, {"message": "uid too long, or an id of another Grafana"}
        if body.get("folderUid") not in self.stand_in.folders:
            return 400, {"message": "folder not found"}
        if uid in self.stand_in.dashboards and not body.get("overwrite"):
            return 412, {"message": "A dashboard with the same uid already exists", "status": "name-exists"}
        self.stand_in.dashboards[uid] = body
        return 200, {"id": 1, "uid": uid, "url": f"/d/{uid}/slug", "status": "success", "version": 1, "slug": "slug"}

    def _add_annotation(self, body: dict[str, Any]) -> tuple[int, Any]:
        if not body.get("text"):
            return 400, {"message": "Failed to save annotation", "error": "text field should not be empty"}
        number = len(self.stand_in.annotations) + 1
        self.stand_in.annotations[number] = body
        return 200, {"message": "Annotation added", "id": number}

    def _change_annotation(self, body: dict[str, Any], number: str) -> tuple[int, Any]:
        if int(number) not in self.stand_in.annotations:
            return 404, {"message": "Could not find annotation to update"}
        # All properties are replaced: what is not there is empty afterwards.
        self.stand_in.annotations[int(number)] = body
        return 200, {"message": "Annotation updated"}

    def _send(self, status: int, content: Any, kind: str = "application/json") -> None:
        text = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def grafana_stand_in() -> Iterator[GrafanaStandIn]:
    """Serve one on a free port of loopback for as long as the block lasts."""
    stand_in = GrafanaStandIn()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"stand_in": stand_in}))
    stand_in.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
