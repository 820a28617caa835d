"""What the parts tell each other."""

from __future__ import annotations

import contextlib
from pathlib import Path

import attrs
import pytest
import trio

from berth.daemon.configfile import read_config
from berth.daemon.parts import Parts
from berth.errors import ClaimError
from berth.health.finding import Finding, Severity
from berth.model.device import Nic, NicKind
from berth.model.inventory import Inventory
from berth.model.peripheral import Door
from berth.model.pod import Container, ContainerState, Sandbox
from berth.node.plugin.running import mark
from berth.nri.handlers import Turn
from berth.nri.plugin import PluginState
from berth.nri.versions import Runtime
from berth.runtime.threads import Decision
from tests.unit.daemon.conftest import GROUP, write_config
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.node.peripherals import RESOURCE, given, modem

NIC = Nic(identity="pci:0000:41:00.0", name="nic-0", kind=NicKind.PF, group="lab")
SICK = Finding(code="no-answer", severity=Severity.FAULT, message="it does not answer")


async def test_runtime_that_goes_away_ends_no_container(parts: Parts) -> None:
    """It is started anew beside them; a device in a pod deleted by force stays held."""

    env = dict([mark(RESOURCE, ["modem-0"]).split("=", 1)])
    state = ContainerState.RUNNING
    parts.running.made(Sandbox(id="s1"), Container(id="c1", sandbox_id="s1", env=env, state=state))

    parts.tell_nri(PluginState(synchronized=False, reason="the runtime is away"))

    assert parts.running.is_live(given(modem()))


async def test_times_of_groups_hold_from_a_reload_on(parts: Parts, config: Path) -> None:
    """Those of a NIC are its group's."""

    before_s = parts.care.terms.get().of_nic(NIC).timeout_s
    write_config(config, f"{GROUP}health = {{ timeout_s = 300 }}\n")
    parts.reload(read_config(config).config)

    terms = parts.care.terms.get()
    assert (before_s, terms.of_nic(NIC).timeout_s) == (60, 300)


@pytest.mark.parametrize("attach", ["nri", "cni"])
async def test_mark_of_a_nic_that_nobody_holds_is_a_question_where_berth_moves_it(
    parts: Parts, config: Path, attach: str
) -> None:
    """By the groups in force; a container must not start without."""

    write_config(config, f'{GROUP}door = "plugin"\nresource = "{RESOURCE}"\nattach = "{attach}"\n')
    parts.reload(read_config(config).config)
    listing = attrs.evolve(modem(), group="lab", door=Door.PLUGIN)
    parts.held.discovery.inventory.set(Inventory(listings=(listing,)))
    pod = Sandbox(id="s1", name="user", namespace="team", uid="uid-of-user", netns_path="/dev/null")
    asking = Container(
        id="c1", sandbox_id="s1", env=dict([mark(RESOURCE, ["modem-0"]).split("=", 1)])
    )

    turn = Turn(
        runtime=Runtime(name="containerd", version="v2.2.2"), limit_s=1.5, decision=Decision()
    )
    refused = pytest.raises(ClaimError, match="kubelet does not say which")
    with refused if attach == "nri" else contextlib.nullcontext():
        await parts.hooks.create_container(pod, asking, turn)


async def test_causes_are_those_of_the_life_before(parts: Parts, nursery: trio.Nursery) -> None:
    """The first verdicts that are told know of them."""

    parts.held.discovery.inventory.set(Inventory(nics=(NIC,)))
    async with trio.open_nursery() as life:
        await life.start(parts.care.run)
        parts.care.health.report(NIC.identity, "probe", (SICK,))
        life.cancel_scope.cancel()

    await parts.care.recall()
    await nursery.start(parts.care.run)
    assert parts.care.health.state.get().of(NIC.name).reason == "no-answer"


async def test_own_pools_are_those_of_the_node_that_the_server_knows_us_as(parts: Parts) -> None:
    """Without a server the host's name alone is known, and a Node may be called otherwise."""

    before = parts.own_pools()
    parts.gateway.connect(FakeApi(node_name="worker-7"))

    assert not before
    assert parts.own_pools() == {"worker-7", "worker-7/nic"}
