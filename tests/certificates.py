"""Certificates that tests make for themselves: an authority's, and those of a server on 127.0.0.1 and of a client, which it has signed."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


def make_certificates(folder: Path) -> dict[str, str]:
    """Write PEM files into ``folder``, readable for all. Returns their paths: ca, other_ca, server, client, and each name with ``_key``.

    ``locked_key`` is the client's key, encrypted. ``stranger`` is a server's certificate of the same authority, for another host.
    """
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    files: dict[str, str] = {}

    def write(name: str, content: bytes) -> None:
        path = folder / f"{name}.pem"
        path.write_bytes(content)
        path.chmod(0o644)
        files[name] = str(path)

    authority_key, authority = _make("authority", None)
    write("ca", authority.public_bytes(serialization.Encoding.PEM))
    write("other_ca", _make("another authority", None)[1].public_bytes(serialization.Encoding.PEM))
    for name, address in (("server", "127.0.0.1"), ("stranger", "192.0.2.1"), ("client", "127.0.0.1")):
        key, certificate = _make(name, (authority_key, authority), address)
        write(name, certificate.public_bytes(serialization.Encoding.PEM))
        write(f"{name}_key", _write_key(key, serialization.NoEncryption()))
        if name == "client":
            write("locked_key", _write_key(key, serialization.BestAvailableEncryption(b"secret")))
    return files


def _make(
    name: str, authority: tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None, address: str = ""
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signing_key, issuer = (authority[0], authority[1].subject) if authority else (key, subject)
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
    )
    if address:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        builder = builder.add_extension(names, critical=False)
    return key, builder.sign(signing_key, hashes.SHA256())


def _write_key(key: ec.EllipticCurvePrivateKey, encryption: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
