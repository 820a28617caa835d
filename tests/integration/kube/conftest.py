"""A stand-in on loopback, and what a test needs to be its client and its fault."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio

from berth.kube import client as client_module
from berth.kube import watcher
from berth.kube.client import KubeClient
from berth.kube.credentials import Credentials
from berth.kube.server import KubeServer
from berth.kube.sources import Choice
from berth.rehearsal.apiserver.server import ApiServer, kubeconfig_json


@attrs.frozen(kw_only=True)
class Bench:
    """A server, and a client of it whose kubeconfig a test may change."""

    server: ApiServer
    client: KubeClient
    kubeconfig: Path
    address: str

    @property
    def api(self) -> KubeServer:
        """The client as the agent uses it."""
        return KubeServer(self.client)

    def requests(self, *, path: str = "", watch: bool | None = None) -> list[dict[str, str]]:
        """Parameters of the requests that came, those of watches or of others alone."""
        return [
            dict(seen.params)
            for seen in self.server.seen
            if path in seen.path and watch in {None, "watch" in seen.params}
        ]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts and limits of silence, short enough for a test."""
    monkeypatch.setattr(watcher, "delay_s", lambda attempts, _jitter: 0.01 * min(attempts, 5))
    monkeypatch.setattr(client_module, "SILENCE_LIMIT_S", 0.3)
    monkeypatch.setattr(client_module, "CONNECT_LIMIT_S", 0.3)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A stand-in on loopback with one client."""
    server = ApiServer(bookmark_s=0.05)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_json(address))
    choice = Choice(kind="kubeconfig", path=str(kubeconfig))
    client = KubeClient(Credentials(choice, environment={}))
    await client.credentials.login()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listeners)
        yield Bench(server=server, client=client, kubeconfig=kubeconfig, address=address)
        with trio.fail_after(5):
            await client.aclose()
        nursery.cancel_scope.cancel()
