"""Lets Java and Node.js trust the certificate authorities that this machine trusts, when they download packages.

Those that come from Python packages have lists of their own, which lack what a company has added to its machines. The machine's authorities are
those of OpenSSL's bundle, which ``SSL_CERT_FILE`` may name.
"""

from __future__ import annotations

import secrets
import ssl
import warnings
from pathlib import Path


def list_java_options(folder: Path) -> list[str]:
    """Write a trust store with the machine's authorities into ``folder``; returns the options with which Java uses it.

    Without a bundle Java keeps its own list: there are no options.
    """
    bundle = ssl.get_default_verify_paths().cafile
    if bundle is None:
        return []
    # Every command reads scenarios, and with them this module; only an installation downloads anything.
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
    from cryptography.utils import CryptographyDeprecationWarning

    with warnings.catch_warnings(
        action="ignore", category=CryptographyDeprecationWarning
    ):  # one authority has an invalid serial number
        found = x509.load_pem_x509_certificates(Path(bundle).read_bytes())
    authorities = [PKCS12Certificate(each, f"{number}".encode()) for number, each in enumerate(found)]
    password = secrets.token_hex(8)  # the format requires one; what it protects is public
    store = folder / "trusted.p12"
    store.write_bytes(serialize_java_truststore(authorities, BestAvailableEncryption(password.encode())))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={password}",
    ]


def node_environment() -> dict[str, str]:
    """Return the variables by which Node.js trusts the machine's authorities, too."""
    bundle = ssl.get_default_verify_paths().cafile
    return {} if bundle is None else {"NODE_EXTRA_CA_CERTS": bundle}
