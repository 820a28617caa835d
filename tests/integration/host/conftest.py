"""A scratch host and a scratch pod, joined by nothing but the descriptors that a test uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from berth.host.netlink.rtnl import Rtnl
from tests.netns import ScratchNetns, need_kind, scratch_netns

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(name="home")
def _home() -> Iterator[ScratchNetns]:
    """A namespace that stands for the host: veth ends v0 and v1, both down."""
    need_kind("veth")
    with scratch_netns("home") as namespace:
        namespace.ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
        yield namespace


@pytest.fixture(name="pod")
def _pod() -> Iterator[ScratchNetns]:
    """A namespace that stands for a pod: nothing but its loopback."""
    with scratch_netns("pod") as namespace:
        yield namespace


@pytest.fixture(name="host_tables")
def _host_tables(home: ScratchNetns) -> Iterator[Rtnl]:
    with Rtnl.of(home.path, where="host") as tables:
        yield tables


@pytest.fixture(name="pod_tables")
def _pod_tables(pod: ScratchNetns) -> Iterator[Rtnl]:
    with Rtnl.of(pod.path) as tables:
        yield tables
