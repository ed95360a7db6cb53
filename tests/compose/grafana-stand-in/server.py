"""Serves what tests/compose asks a Grafana for: its health, and what it would have provisioned."""

import json
import os
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PROVISIONING = Path("/etc/grafana/provisioning")


def provisioned() -> list[dict[str, str]]:
    """Return the dashboards below the paths of the providers, by the data source that is there for them."""
    (source,) = [
        found for path in PROVISIONING.glob("datasources/*.yml") for found in re.findall(r"uid: (\S+)", path.read_text())
    ]
    folders = [found for path in PROVISIONING.glob("dashboards/*.yml") for found in re.findall(r"path: (\S+)", path.read_text())]
    boards = [json.loads(path.read_text()) for folder in folders for path in Path(folder).rglob("*.json")]
    return [{"uid": board["uid"], "title": board["title"], "source": source} for board in boards]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {"/api/health": {"database": "ok", "version": "12.0.0"}, "/api/search": provisioned()}
        content = json.dumps(answers.get(self.path, {"message": "Not found"})).encode()
        self.send_response(200 if self.path in answers else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Print nothing."""


assert os.environ["GF_SECURITY_ADMIN_PASSWORD"], "the administrator has no password"
assert os.environ["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
ThreadingHTTPServer(("0.0.0.0", 3000), Handler).serve_forever()
