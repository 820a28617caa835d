"""TLS contexts from PEM in memory.

OpenSSL's Python binding reads our certificate and key from a path alone, so they go through a file
in memory that has no name: nothing of a key is ever on a disk.
"""

from __future__ import annotations

import os
import ssl

from berth.errors import KubeError
from berth.kube.logins import Tls


def make_context(tls: Tls, *, source: str, plain: bool = False) -> ssl.SSLContext:
    """The context for ``tls``, with the system's CAs when it names none.

    Not by ``ssl.create_default_context``: since Python 3.13 that refuses CAs without key
    identifiers, as many clusters have.

    Args:
        tls: What the credentials say.
        source: Where they came from, for messages.
        plain: The server is reached without TLS. Then the system's CAs stay where they are: some
            140 of them take 1 MB.

    Raises:
        KubeError: The PEM cannot be used, or the key is not the certificate's.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if tls.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif tls.ca:
            context.load_verify_locations(cadata=tls.ca.decode("ascii", "ignore"))
        elif not plain:
            context.load_default_certs()
        if tls.certificate:
            _load_chain(context, tls.certificate + b"\n" + tls.key)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", "") or "no PEM in them"
        raise KubeError(source, f"its certificates cannot be used: {reason}") from error
    return context


def _load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    descriptor = os.memfd_create("berth-login", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)


def _no_password() -> str:
    """Without it OpenSSL would ask the terminal for the password of an encrypted key."""
    return ""
