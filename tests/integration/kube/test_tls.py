"""TLS to the API server: whom we trust, who we are, and what happens when that turns over."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from berth.errors import KubeError
from berth.kube.client import KubeClient, Request
from berth.kube.credentials import Credentials
from berth.kube.sources import Choice
from berth.rehearsal.apiserver.server import ApiServer
from tests.cluster.pki import Authority

VERSION = Request(method="GET", path="/version")


@attrs.define
class TlsBench:
    """A server that asks for a client certificate, and who showed one."""

    authority: Authority
    address: str
    folder: Path
    names: list[str] = attrs.field(factory=list)

    def write(self, *, cluster: dict[str, Any] | None = None, **user: Any) -> Choice:
        """A kubeconfig like kubeadm's, which names one file for certificate and key."""
        pem = str(self.folder / "kubelet-client-current.pem")
        whole = {
            "server": self.address,
            "certificate-authority": str(self.authority.certificate),
            **(cluster or {}),
        }
        document = {
            "clusters": [{"name": "c", "cluster": whole}],
            "users": [
                {"name": "u", "user": user or {"client-certificate": pem, "client-key": pem}}
            ],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }
        path = self.folder / "kubelet.conf"
        path.write_text(json.dumps(document))
        return Choice(kind="kubelet", path=str(path))

    def renew(self, name: str) -> None:
        """Put a new certificate in place, as kubelet does: a link that turns over."""
        made = self.authority.sign(name, f"/O=system:nodes/CN=system:node:{name}")
        (self.folder / f"{name}.pem").write_bytes(
            made.certificate.read_bytes() + made.key.read_bytes()
        )
        link = self.folder / "next"
        link.symlink_to(f"{name}.pem")
        link.replace(self.folder / "kubelet-client-current.pem")


@pytest.fixture
async def tls(tmp_path: Path) -> AsyncIterator[TlsBench]:
    """The stand-in behind TLS on loopback."""
    authority = Authority(tmp_path / "pki")
    serving = authority.sign("server", "/CN=api", addresses="IP:127.0.0.1,DNS:kubernetes")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(serving.certificate, serving.key)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = ApiServer()
    bench = TlsBench(authority=authority, address="", folder=tmp_path)

    async def serve(plain: trio.SocketStream) -> None:
        stream = trio.SSLStream(plain, context, server_side=True, https_compatible=True)
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.do_handshake()
            subject = dict(part[0] for part in (stream.getpeercert() or {}).get("subject", ()))
            bench.names.append(subject.get("commonName", ""))
            await server.serve_stream(stream)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    bench.address = f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, listeners)
        yield bench
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def client_of(choice: Choice) -> AsyncIterator[KubeClient]:
    """A client by these credentials, closed at the end."""
    client = KubeClient(Credentials(choice, environment={}))
    try:
        yield client
    finally:
        with trio.fail_after(5):
            await client.aclose()


async def test_certificate_says_who_we_are_and_which_node_this_is(tls: TlsBench) -> None:
    """The server sees the name that the identity tells."""

    tls.renew("worker-7")

    async with client_of(tls.write()) as client:
        await client.request(VERSION)
        identity = client.credentials.identity

    assert tls.names == ["system:node:worker-7"]
    assert (identity.kind, identity.node_name) == ("kubelet", "worker-7")


async def test_renewed_certificate_is_shown_with_the_next_request(tls: TlsBench) -> None:
    """On a new connection; a stream that is open goes on on the old one."""

    tls.renew("before")
    async with client_of(tls.write()) as client:
        watch = Request(method="GET", path="/api/v1/nodes", params={"watch": "true"})
        async with client.stream(watch, silence_s=5):
            await client.request(VERSION)
            await client.request(VERSION)
            tls.renew("after")
            await client.request(VERSION)
            await client.request(VERSION)
            open_ones = client.local_endpoints()
        names = list(tls.names)

    assert names == ["system:node:before", "system:node:before", "system:node:after"]
    assert open_ones == ("127.0.0.1",)


async def test_server_of_another_authority_is_not_spoken_to(tls: TlsBench) -> None:
    """The reason is OpenSSL's, not an empty text."""

    stranger = Authority(tls.folder / "stranger")
    choice = tls.write(cluster={"certificate-authority": str(stranger.certificate)}, token="t")

    async with client_of(choice) as client:
        with pytest.raises(KubeError, match="certificate verify failed"):
            await client.request(VERSION)

    assert tls.names == []


async def test_name_of_the_server_can_be_given(tls: TlsBench) -> None:
    """tls-server-name is what the certificate is checked for, whatever address was dialled."""

    right = {"tls-server-name": "kubernetes"}
    wrong = {"tls-server-name": "elsewhere"}

    async with client_of(tls.write(cluster=right, token="t")) as client:
        await client.request(VERSION)
    async with client_of(tls.write(cluster=wrong, token="t")) as client:
        with pytest.raises(KubeError, match=r"[Hh]ostname mismatch.*elsewhere"):
            await client.request(VERSION)


async def test_insecure_file_is_taken_at_its_word(tls: TlsBench) -> None:
    """And only then."""

    cluster = {"certificate-authority": None, "insecure-skip-tls-verify": True}

    async with client_of(tls.write(cluster=cluster, token="t")) as client:
        assert (await client.request(VERSION))["major"] == "1"


async def test_certificate_of_no_use_is_told_by_its_file(tls: TlsBench) -> None:
    """Half a file fails the call, and the whole one mends it."""

    tls.renew("worker-7")
    whole = (tls.folder / "worker-7.pem").read_bytes()
    (tls.folder / "worker-7.pem").write_bytes(whole[:100])

    async with client_of(tls.write()) as client:
        with pytest.raises(KubeError, match=r"kubelet\.conf: its certificates cannot be used"):
            await client.request(VERSION)
        (tls.folder / "worker-7.pem").write_bytes(whole)
        await client.request(VERSION)

    assert tls.names == ["system:node:worker-7"]
