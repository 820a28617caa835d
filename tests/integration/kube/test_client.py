"""Calls to a server that hangs, lies, breaks off or is not there."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from berth.errors import KubeError
from berth.kube import client as client_module
from berth.kube.client import KubeClient, Request
from berth.kube.credentials import Credentials
from berth.kube.sources import Choice
from berth.rehearsal.apiserver.callers import Caller
from berth.rehearsal.apiserver.faults import Break, Cut, Fault, Hang, Refuse
from berth.rehearsal.apiserver.resources import NODES
from berth.rehearsal.apiserver.server import ApiServer, kubeconfig_json
from tests.integration.kube.conftest import Bench

VERSION = Request(method="GET", path="/version")
NODE = Request(method="GET", path="/api/v1/nodes/n")


@contextlib.asynccontextmanager
async def raw_server(
    tmp_path: Path, behave: Callable[[trio.SocketStream], Awaitable[None]]
) -> AsyncIterator[KubeClient]:
    """A client of something that behaves so on each connection."""

    async def serve(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await behave(stream)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    (tmp_path / "raw").write_text(kubeconfig_json(address))
    client = KubeClient(
        Credentials(Choice(kind="kubeconfig", path=str(tmp_path / "raw")), environment={})
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, listeners)
        yield client
        await client.aclose()
        nursery.cancel_scope.cancel()


def answering(data: bytes) -> Callable[[trio.SocketStream], Awaitable[None]]:
    """Answer each request with these bytes, then end the connection."""

    async def behave(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(data)
        await stream.aclose()

    return behave


async def test_server_without_tls_needs_no_authorities(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's own, which take 1 MB, are loaded for a server alone that they may vouch for."""

    loaded: list[ssl.SSLContext] = []

    def note(context: ssl.SSLContext) -> None:
        loaded.append(context)

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", note)

    await bench.client.request(VERSION)

    assert loaded == []


@pytest.mark.usefixtures("quick")
async def test_call_that_hangs_ends_and_holds_up_no_other(bench: Bench) -> None:
    """Nine claims wait on a server that answers one kind of request no more; others go on."""

    bench.server.put(NODES, {"metadata": {"name": "n"}})
    bench.server.faults.append(Fault(action=Hang(), path="/nodes", times=None))
    errors: list[KubeError] = []

    async def hang() -> None:
        with pytest.raises(KubeError) as error:
            await bench.client.request(NODE)
        errors.append(error.value)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(hang)
            await bench.client.request(VERSION)
            assert errors == []

    assert {error.status for error in errors} == {0}
    assert "no answer" in str(errors[0])


@pytest.mark.usefixtures("quick")
async def test_more_hanging_calls_than_connections_all_end(bench: Bench) -> None:
    """Who finds no free connection is told, too."""

    bench.server.faults.append(Fault(action=Hang(), times=None))
    count = 0

    async def hang() -> None:
        nonlocal count
        with pytest.raises(KubeError):
            await bench.client.request(VERSION)
        count += 1

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(hang)

    assert count == 40


async def test_answer_that_trickles_ends_at_the_limit_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then keeps no call alive."""

    monkeypatch.setattr(client_module, "CALL_LIMIT_S", 0.3)

    async def trickle(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            await stream.send_all(b" ")
            await trio.sleep(0.01)

    async with raw_server(tmp_path, trickle) as client:
        with trio.fail_after(5), pytest.raises(KubeError, match="no answer within"):
            await client.request(VERSION)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "no answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", "no answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]", "no JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nNaN", "no JSON"),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", r"\(302\)"),
        (
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 22\r\n\r\n<html>no server</html>",
            r"<html>no server</html> \(502\)",
        ),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n[]", r"\[\] \(500\)"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", r"refused without a word \(500\)"),
    ],
)
async def test_answer_of_no_use_is_a_kube_error(data: bytes, told: str, tmp_path: Path) -> None:
    """Whatever a proxy or a wrong server says, the call ends with our error."""

    async with raw_server(tmp_path, answering(data)) as client:
        with pytest.raises(KubeError, match=told) as error:
            await client.request(VERSION)

    assert str(error.value).startswith("API server, GET /version: ")


async def test_answer_without_end_is_cut_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded."""

    monkeypatch.setattr(client_module, "RESPONSE_LIMIT", 100_000)

    async def flood(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await stream.send_all(b"1000\r\n" + b" " * 4096 + b"\r\n")

    async with raw_server(tmp_path, flood) as client:
        with pytest.raises(KubeError, match="longer than 100000 bytes"):
            await client.request(VERSION)


async def test_server_that_is_not_there_is_told_with_the_systems_words(tmp_path: Path) -> None:
    """Refused is refused, not "all connection attempts failed"."""

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    (tmp_path / "config").write_text(kubeconfig_json(f"http://127.0.0.1:{port}"))
    choice = Choice(kind="kubeconfig", path=str(tmp_path / "config"))
    client = KubeClient(Credentials(choice, environment={}))

    with pytest.raises(KubeError, match="Connection refused"):
        await client.request(VERSION)
    await client.aclose()


async def test_read_is_repeated_when_a_kept_connection_was_closed(bench: Bench) -> None:
    """The server closes an idle connection in the same moment: nobody needs to know."""

    bench.server.faults.append(Fault(action=Break(cut=Cut.FIN), method="GET"))

    assert (await bench.client.request(VERSION))["gitVersion"] == "v1.37.2"
    assert len(bench.server.seen) == 2


async def test_write_is_never_repeated(bench: Bench) -> None:
    """The server may have acted on what it did not answer."""

    bench.server.faults.append(Fault(action=Break(cut=Cut.RST), method="POST"))

    with pytest.raises(KubeError, match="no answer"):
        await bench.client.request(Request(method="POST", path="/api/v1/nodes", body={}))

    assert len(bench.server.seen) == 1


async def test_cancelled_call_leaves_a_client_that_works(bench: Bench) -> None:
    """A cancel closes its connection, and the next call takes another."""

    bench.server.faults.append(Fault(action=Hang()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.client.request, VERSION)
        with trio.fail_after(5):
            while not bench.server.seen:  # noqa: ASYNC110 -- the stand-in tells nobody what it saw
                await trio.sleep(0.005)
        nursery.cancel_scope.cancel()

    assert (await bench.client.request(VERSION))["major"] == "1"
    assert bench.client.local_endpoints() == ("127.0.0.1",)


async def test_local_endpoints_are_those_of_open_connections(bench: Bench) -> None:
    """Before the first call and after the end there are none."""

    before = bench.client.local_endpoints()
    await bench.client.request(VERSION)
    during = bench.client.local_endpoints()
    await bench.client.aclose()

    assert (before, during, bench.client.local_endpoints()) == ((), ("127.0.0.1",), ())


async def test_server_behind_a_unix_socket_is_reached(tmp_path: Path) -> None:
    """A rehearsal's daemon lives in another network namespace than its server."""

    server = ApiServer()
    path = tmp_path / "api.sock"
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(str(path))
    listening.listen()
    (tmp_path / "config").write_text(kubeconfig_json(f"unix://{path}"))
    choice = Choice(kind="kubeconfig", path=str(tmp_path / "config"))
    client = KubeClient(Credentials(choice, environment={}))
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, [trio.SocketListener(listening)])
        answer = await client.request(VERSION)
        assert client.local_endpoints() == ()
        await client.aclose()
        nursery.cancel_scope.cancel()

    assert answer["gitVersion"] == "v1.37.2"


async def test_proxy_of_the_kubeconfig_is_gone_through(bench: Bench, tmp_path: Path) -> None:
    """The stand-in understands what a proxy is sent; the server itself is never dialled."""

    document = json.loads(kubeconfig_json("http://192.0.2.1:6443"))
    document["clusters"][0]["cluster"]["proxy-url"] = bench.address
    (tmp_path / "proxied").write_text(json.dumps(document))
    choice = Choice(kind="kubeconfig", path=str(tmp_path / "proxied"))
    client = KubeClient(Credentials(choice, environment={}))

    assert (await client.request(VERSION))["major"] == "1"
    await client.aclose()
    assert len(bench.server.seen) == 1


async def test_token_that_turned_over_is_taken_up_without_an_error(bench: Bench) -> None:
    """The file changes before the server forgets the old token, or after: nobody notices."""

    bench.server.tokens = {"one": Caller(name="me")}
    bench.kubeconfig.write_text(kubeconfig_json(bench.address, token="one"))
    await bench.client.request(NODE_LIST)

    bench.server.tokens = {"two": Caller(name="me")}
    bench.kubeconfig.write_text(kubeconfig_json(bench.address, token="two"))
    await bench.client.request(NODE_LIST)

    assert [seen.caller for seen in bench.server.seen] == ["me", "me"]


NODE_LIST = Request(method="GET", path="/api/v1/nodes")


async def test_token_that_the_server_does_not_know_is_tried_twice_and_told(bench: Bench) -> None:
    """401 is not a loop."""

    bench.server.tokens = {"right": Caller(name="me")}
    bench.kubeconfig.write_text(kubeconfig_json(bench.address, token="wrong"))

    with pytest.raises(KubeError) as error:
        await bench.client.request(NODE_LIST)

    assert (error.value.status, error.value.reason) == (401, "Unauthorized")
    assert len(bench.server.seen) == 2
    assert "wrong" not in str(error.value)


async def test_credential_plugin_is_asked_again_after_a_401(bench: Bench, tmp_path: Path) -> None:
    """A plugin's token without an end is over when the server says so, for a watch as well."""

    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        f"n=$(($(cat {tmp_path}/count 2>/dev/null || echo 0) + 1)); echo $n > {tmp_path}/count\n"
        'echo "{\\"apiVersion\\": \\"client.authentication.k8s.io/v1\\",'
        ' \\"kind\\": \\"ExecCredential\\", \\"status\\": {\\"token\\": \\"t$n\\"}}"\n'
    )
    plugin.chmod(0o755)
    document: dict[str, Any] = json.loads(kubeconfig_json(bench.address))
    document["users"][0]["user"] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    }
    (tmp_path / "exec").write_text(json.dumps(document))
    choice = Choice(kind="kubeconfig", path=str(tmp_path / "exec"))
    client = KubeClient(Credentials(choice, environment=os.environ))
    bench.server.tokens = {"t1": Caller(name="first")}
    await client.request(NODE_LIST)

    bench.server.tokens = {"t2": Caller(name="second")}
    await client.request(NODE_LIST)
    bench.server.tokens = {"t3": Caller(name="third")}
    with pytest.raises(KubeError, match="401"):
        async with client.stream(NODE_LIST, silence_s=1):
            pass
    async with client.stream(NODE_LIST, silence_s=1) as pieces:
        text = b"".join([piece async for piece in pieces])
    await client.aclose()

    assert json.loads(text)["kind"] == "NodeList"
    assert [seen.caller for seen in bench.server.seen] == ["first", "", "second", "", "third"]


async def test_refusal_without_end_keeps_both_ends(bench: Bench) -> None:
    """It goes into what kubelet and the operator are told."""

    message = f"first {'x' * 1_000_000} last"
    bench.server.faults.append(Fault(action=Refuse(status=500, message=message)))
    with pytest.raises(KubeError, match=r"first x+ … x+ last \(500\)") as refused:
        await bench.client.request(NODE)

    assert len(str(refused.value)) < 2100


async def test_refusal_carries_reason_message_and_fields(bench: Bench) -> None:
    """What the server said reaches whoever has to act on it."""

    bench.server.faults.append(
        Fault(action=Refuse(status=403, message="no relationship found between node and this"))
    )
    with pytest.raises(KubeError) as unrelated:
        await bench.client.request(NODE)
    body = {"metadata": {"name": "Bad"}}
    with pytest.raises(KubeError) as invalid:
        await bench.client.request(Request(method="POST", path="/api/v1/nodes", body=body))

    assert unrelated.value.reason == "NoRelationship"
    assert (invalid.value.status, invalid.value.reason) == (422, "Invalid")
    assert invalid.value.fields == ("metadata.name",)
    assert "lower-case DNS subdomain" in str(invalid.value)
