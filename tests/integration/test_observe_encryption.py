"""`stallbench observe` on a MariaDB server that accepts encrypted sessions only: what an address must say, and what it says if that does not fit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from stallbench.base.section import SettingValue
from stallbench.engines import driver_of
from stallbench.observe.address import read_addresses
from stallbench.observe.innodb.observer import make_innodb_observer
from stallbench.observe.innodb.queues import InnoDBQueuesDiagnostic
from stallbench.observe.innodb.session import InnoDBSession
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from tests.certificates import make_certificates
from tests.integration.engines import FAST, PrivateServers, private_servers

pytestmark = pytest.mark.integration

WATCHER, PASSWORD = "watcher", "watched"
"""A user that must show a certificate of its own."""


@dataclass(frozen=True, slots=True)
class ObservedServer:
    """A server, and the files of certificates that its user has."""

    endpoint: Endpoint
    files: Mapping[str, str]

    def read(self, parameters: str, user: str = "root") -> Observation:
        """Look once at ``mariadb://USER@HOST:PORT/DATABASE?PARAMETERS``, in a session that is encrypted."""
        endpoint, query = self.endpoint, parameters.format(**self.files)
        address = f"mariadb://{user}@{endpoint.host}:{endpoint.port}/{endpoint.database}?{query}"
        with closing(make_innodb_observer(read_addresses([address]), InnoDBQueuesDiagnostic(()))) as observer:
            observation = observer.read()
            if not observation.gone:
                session = observer.sessions["primary"]
                assert isinstance(session, InnoDBSession)
                ((_, cipher),) = session.fetch("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
                assert cipher
            return observation


@pytest.fixture(scope="module")
def servers_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateServers]:
    with private_servers(tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture(scope="module")
def files() -> Iterator[Mapping[str, str]]:
    """Where the server's own user can read them, too."""
    with tempfile.TemporaryDirectory() as folder:
        yield make_certificates(Path(folder))


def start(servers: PrivateServers, settings: Mapping[str, SettingValue]) -> Endpoint:
    return servers.start("mariadb", {**FAST["mariadb"], **settings}).endpoint


def start_encrypted(servers: PrivateServers, files: Mapping[str, str], certificate: str) -> ObservedServer:
    settings = {"ssl_ca": files["ca"], "ssl_cert": files[certificate], "ssl_key": files[f"{certificate}_key"]}
    endpoint = start(servers, settings)
    with driver_of("mariadb").connect(endpoint, "fixture") as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE USER {WATCHER}@{endpoint.host!r} IDENTIFIED BY '{PASSWORD}' REQUIRE X509")
        cursor.execute(f"GRANT ALL ON *.* TO {WATCHER}@{endpoint.host!r}")
        cursor.execute("SET GLOBAL require_secure_transport = ON")
    return ObservedServer(endpoint, files)


@pytest.fixture(scope="module")
def own_server(servers_here: PrivateServers, files: Mapping[str, str]) -> ObservedServer:
    """Its certificate is for its address."""
    return start_encrypted(servers_here, files, "server")


@pytest.fixture
def server(own_server: ObservedServer, monkeypatch: pytest.MonkeyPatch) -> ObservedServer:
    monkeypatch.setenv(PASSWORD_VARIABLE, own_server.endpoint.password.get_secret_value())
    return own_server


@pytest.mark.parametrize(
    "parameters",
    [
        "",
        "ssl-mode=REQUIRED",
        "ssl_ca={ca}",
        "ssl_ca={ca}&ssl_verify_identity=true",
        "ssl-ca={ca}&ssl-verify-server-cert",
        "ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}",
    ],
)
def test_a_certificate_that_fits_is_accepted(server: ObservedServer, parameters: str) -> None:
    observation = server.read(parameters)
    assert not observation.gone
    assert "MariaDB" in observation.title


@pytest.mark.parametrize("parameters", ["ssl_ca={other_ca}", "ssl_verify_cert=true", "ssl_ca={server}"])
def test_a_certificate_of_another_authority_is_refused(server: ObservedServer, parameters: str) -> None:
    gone = server.read(parameters).gone
    assert "certificate verify failed" in gone
    assert "ssl_ca must name the certificate of the authority that signed the server's" in gone


def test_a_server_that_wants_encryption_refuses_a_session_without(server: ObservedServer) -> None:
    assert server.read("ssl-mode=disabled").gone


def test_a_user_with_a_certificate_of_its_own(server: ObservedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    assert "Access denied" in server.read("ssl_ca={ca}", WATCHER).gone
    assert not server.read("ssl_ca={ca}&ssl_cert={client}&ssl_key={client_key}", WATCHER).gone


def test_a_certificate_for_another_host_is_refused_only_if_the_name_is_checked(
    servers_here: PrivateServers, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = start_encrypted(servers_here, files, "stranger")
    monkeypatch.setenv(PASSWORD_VARIABLE, stranger.endpoint.password.get_secret_value())
    assert not stranger.read("ssl_ca={ca}").gone
    gone = stranger.read("ssl_ca={ca}&ssl_verify_identity=true").gone
    assert "certificate verify failed" in gone
    assert "not valid for '127.0.0.1'" in gone
    assert "ssl_verify_identity checks that the certificate is for the host in the address" in gone


def test_a_server_without_a_certificate_is_not_observed_if_encryption_is_demanded(
    servers_here: PrivateServers, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ObservedServer(start(servers_here, {}), files)
    monkeypatch.setenv(PASSWORD_VARIABLE, plain.endpoint.password.get_secret_value())
    for parameters in ("ssl-mode=required", "ssl_ca={ca}"):
        assert "SSL" in plain.read(parameters).gone
