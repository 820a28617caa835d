"""TLS contexts from PEM in memory."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.errors import KubeError
from berth.kube.logins import Tls
from berth.kube.tls import make_context
from tests.cluster.pki import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority by openssl."""
    return Authority(tmp_path_factory.mktemp("pki") / "ca")


def test_context_checks_the_server_against_the_given_authority(authority: Authority) -> None:
    """The system's authorities are not asked as well."""

    context = make_context(Tls(ca=authority.certificate.read_bytes()), source="/k")

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert [entry["subject"] for entry in context.get_ca_certs()] == [
        ((("commonName", "berth-test-ca"),),)
    ]


def test_key_and_certificate_never_touch_a_disk(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one path that OpenSSL is given leads to memory."""

    made = authority.sign("client", "/CN=client")
    paths: list[str] = []
    genuine = ssl.SSLContext.load_cert_chain

    def note(self: ssl.SSLContext, path: str, *, password: Callable[[], str]) -> None:
        paths.append(str(Path(path).readlink()))
        genuine(self, path, password=password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", note)
    tls = Tls(certificate=made.certificate.read_bytes(), key=made.key.read_bytes())

    make_context(tls, source="/k")

    assert paths == ["/memfd:berth-login (deleted)"]


def test_insecure_is_taken_at_its_word() -> None:
    """Who says so in the file gets no check."""

    context = make_context(Tls(insecure=True), source="/k")

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_without_an_authority_the_systems_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As kubectl does; not for a server that is reached without TLS."""

    loaded: list[ssl.SSLContext] = []

    def note(context: ssl.SSLContext) -> None:
        loaded.append(context)

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", note)

    context = make_context(Tls(), source="/k")
    plain = make_context(Tls(), source="/k", plain=True)

    assert loaded == [context]
    assert plain.verify_mode is ssl.CERT_REQUIRED


def test_pem_of_no_use_is_told_by_its_file(authority: Authority) -> None:
    """Garbage, a certificate without its key, and another one's key."""

    one, other = authority.sign("one", "/CN=one"), authority.sign("other", "/CN=other")
    certificate = one.certificate.read_bytes()
    broken = [
        Tls(ca=b"garbage"),
        Tls(ca="é".encode()),
        Tls(certificate=b"garbage", key=b"garbage"),
        Tls(certificate=certificate, key=b""),
        Tls(certificate=certificate, key=other.key.read_bytes()),
    ]

    for tls in broken:
        with pytest.raises(KubeError, match=r"^/k: its certificates cannot be used"):
            make_context(tls, source="/k")
