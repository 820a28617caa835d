"""The verb ``topology`` of a daemon, with kubelet there or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio

from berth.daemon.parts import Parts
from berth.daemon.topologyverb import TopologyVerb
from berth.errors import ConfigError, HostError
from berth.host.numanodes import read_numa_nodes
from berth.model.provision import PodProvision
from tests.unit.node.views.fourroots import near

SILENT = HostError("/kubelet.sock", "kubelet does not answer List")


@attrs.frozen(kw_only=True)
class Kubelet:
    """Tells what it is told to tell."""

    pods: tuple[PodProvision, ...] = ()
    error: HostError | None = None

    async def provisions(self) -> tuple[PodProvision, ...]:
        """What its pods have."""
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        return self.pods


async def ask(parts: Parts, kubelet: Kubelet, **request: Any) -> Mapping[str, Any]:
    """Ask as the command does."""

    async def tell(_event: Mapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()

    return await TopologyVerb(parts, kubelet=kubelet).verbs()["topology"](request, tell)


async def test_topology_tells_of_this_machine_and_of_kubelets_pods(parts: Parts) -> None:
    """The nodes are the kernel's, the containers kubelet's."""

    told = await ask(parts, Kubelet(pods=(near(),)))

    assert [node["id"] for node in told["numa"]] == [node.id for node in read_numa_nodes()]
    assert [one["name"] for one in told["pods"][0]["containers"]] == ["main", "side"]
    assert told["warnings"] == []


async def test_topology_without_kubelet_says_so_and_tells_the_rest(parts: Parts) -> None:
    """Only of a pod nothing can be told then."""

    told = await ask(parts, Kubelet(error=SILENT))

    assert (told["pods"], told["warnings"]) == (
        [],
        ["nobody says what containers have: /kubelet.sock: kubelet does not answer List"],
    )
    assert told["numa"]
    with pytest.raises(HostError, match="does not answer"):
        await ask(parts, Kubelet(error=SILENT), pod="default/near")


@pytest.mark.parametrize("pod", [7, None, ["x"]])
async def test_topology_of_no_name_is_refused(parts: Parts, pod: object) -> None:
    """It is a text, or left out."""

    with pytest.raises(ConfigError, match="POD: is"):
        await ask(parts, Kubelet(), pod=pod)
