"""What an address of MariaDB or MySQL may say about encryption, before a server is asked."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from stallbench.engines.innodb.encryption import Encryption, read_encryption
from stallbench.errors import BadInputError
from stallbench.observe.address import read_addresses
from tests.certificates import make_certificates


def read(query: str) -> Encryption:
    return read_encryption("--dsn primary", query)


def test_without_parameters_a_session_is_encrypted_if_the_server_can() -> None:
    assert read("").options == {}
    assert read("ssl_mode=preferred").options == {}
    assert read("ssl-mode=DISABLED").options == {"ssl_disabled": True}
    assert read("ssl=false").options == {"ssl_disabled": True}


@pytest.mark.parametrize(
    ("query", "mode", "checks", "checks_name"),
    [
        ("ssl-mode=REQUIRED", "required", ssl.CERT_NONE, False),
        ("ssl=true", "required", ssl.CERT_NONE, False),
        ("ssl", "required", ssl.CERT_NONE, False),
        ("ssl_ca={ca}", "verify_ca", ssl.CERT_REQUIRED, False),
        ("ssl-ca={ca}&ssl-mode=required", "verify_ca", ssl.CERT_REQUIRED, False),
        ("ssl_verify_cert=true", "verify_ca", ssl.CERT_REQUIRED, False),
        ("ssl_ca={ca}&ssl_verify_identity=1", "verify_identity", ssl.CERT_REQUIRED, True),
        ("ssl-ca={ca}&ssl-verify-server-cert", "verify_identity", ssl.CERT_REQUIRED, True),
        ("ssl_ca={ca}&ssl_mode=verify-identity", "verify_identity", ssl.CERT_REQUIRED, True),
        ("ssl_ca={ca}&ssl_mode=verify_ca&ssl_verify_identity=no", "verify_ca", ssl.CERT_REQUIRED, False),
        ("ssl_ca={ca}&ssl_cert={client}&ssl_key={client_key}", "verify_ca", ssl.CERT_REQUIRED, False),
        ("ssl_cert={client}&ssl_key={client_key}", "required", ssl.CERT_NONE, False),
    ],
)
def test_the_strictest_parameter_decides(
    query: str, mode: str, checks: ssl.VerifyMode, checks_name: bool, tmp_path: Path
) -> None:
    files = make_certificates(tmp_path)
    found = read(query.format(**files))
    assert found.mode == mode
    context = found.options["ssl"]
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (checks, checks_name)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("ssl_caa=x", "parameter ssl_caa is not supported; expected one of ssl_mode, ssl_ca,"),
        ("charset=utf8mb4", "parameter charset is not supported; expected one of"),
        ("ssl_ca=/nowhere/ca.pem", "ssl_ca is '/nowhere/ca.pem', and there is no such file on this machine; expected a PEM file"),
        ("ssl_ca=", "ssl_ca is '', and there is no such file"),
        ("ssl_ca=%00", "there is no such file on this machine"),
        (f"ssl_ca={'x' * 5000}", "there is no such file on this machine"),
        ("ssl_ca={ca}&ssl_ca={ca}", "ssl_ca is given twice"),
        ("ssl_ca={text}", "which has no certificate"),
        ("ssl_key={client_key}", "ssl_key is the key of a client's certificate; give ssl_cert, too"),
        ("ssl_cert={client}&ssl_key={ca}", "not a certificate with its key"),
        ("ssl_cert={client}&ssl_key={locked_key}", "is encrypted; give a key without a passphrase"),
        (
            "ssl_mode=require",
            "ssl_mode is 'require'; expected one of disabled, preferred, required, verify_ca, verify_identity; did you mean \"required\"?",
        ),
        ("ssl_mode=disabled&ssl_ca={ca}", "ssl_mode is disabled, but ssl_ca needs encryption; leave one of the two out"),
        ("ssl_ca={ca}&ssl_verify_cert=false", "ssl_verify_cert is false, but ssl_ca needs it; leave one of the two out"),
        ("ssl=false&ssl_verify_identity=true", "ssl is false, but ssl_verify_identity needs it"),
        ("ssl=false&ssl_mode=required", "ssl is false, and ssl_mode is required; leave one of the two out"),
        ("ssl_verify_cert=maybe", "ssl_verify_cert is 'maybe'; expected true or false"),
    ],
)
def test_a_parameter_that_cannot_be_kept_to_is_refused(query: str, said: str, tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    files["text"] = str(tmp_path / "text.pem")
    Path(files["text"]).write_text("no certificate\n")
    with pytest.raises(BadInputError) as raised:
        read(query.format(**files))
    assert str(raised.value).startswith("--dsn primary: ")
    assert said in str(raised.value)


def test_each_server_has_its_own_encryption_and_a_bad_one_is_named(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    servers = read_addresses(
        [f"mariadb://me@db.test/app?ssl_ca={files['ca']}", "replica1=mariadb://me@db2.test/app?ssl-mode=required"]
    )
    modes = {name: each.mode for name, each in servers.encryption.items() if isinstance(each, Encryption)}
    assert modes == {"primary": "verify_ca", "replica1": "required"}
    with pytest.raises(
        BadInputError, match=r"^--dsn replica1: parameter sslmode is not supported; .*did you mean \"ssl_mode\"\?$"
    ):
        read_addresses(["mariadb://me@db.test/app", "replica1=mariadb://me@db2.test/app?sslmode=require"])
    with pytest.raises(BadInputError, match=r"^--dsn primary: port is 0; expected 1 to 65535$"):
        read_addresses(["mysql://me@db.test:0/app"])
