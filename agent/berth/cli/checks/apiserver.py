"""The API server: whether it answers, knows this node, and has classes for our devices.

A few questions with the credentials that the daemon would use, within a few seconds; nothing is
stored. What may not be read (kubelet's own credentials see no classes) is left out.

Source: cases.md 9; cluster.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import trio

from berth.cli.apiaccess import find_access
from berth.cli.checks.apirights import ask_features, ask_rights
from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import ApiLook, Machine
from berth.dra.capabilities import show
from berth.dra.nodename import choose_node
from berth.errors import BerthError, KubeError
from berth.features.probe import Probe
from berth.features.states import Fate
from berth.kube.api import Node
from berth.kube.client import KubeClient, Request
from berth.kube.credentials import Credentials
from berth.kube.server import KubeServer
from berth.kube.sources import CredentialSettings

TOPIC: Final = "API server"

LIMIT_S: Final = 8.0
"""How long the server may take for all answers together, in seconds."""

_CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"


def look_api(
    settings: CredentialSettings, *, configured: str, host_name: str, driver: str
) -> ApiLook | None:
    """Ask the API server; ``None`` without usable credentials. Blocks for `LIMIT_S` at most.

    Args:
        configured: ``[node] name``.
        driver: ``[dra] driver``.
    """
    try:
        credentials = Credentials(find_access(settings).choice)
    except BerthError:
        # What is wrong with them is told where they are looked at.
        return None
    return trio.run(_look, credentials, configured, host_name, driver)


def check_api(machine: Machine) -> Iterator[Line]:
    """What the API server said."""
    look = machine.api
    if look is None:
        return
    if look.fault:
        yield Line(
            topic=TOPIC,
            level=Level.FAULT,
            text=f"it was asked in vain: {look.fault}",
            mend="until it answers nothing is published, and claims wait",
        )
        return
    yield Line(topic=TOPIC, level=Level.OK, text=f"it answers, version {look.version}")
    if look.node_fault:
        yield Line(topic=TOPIC, level=Level.FAULT, text=look.node_fault)
    elif look.node:
        yield Line(topic=TOPIC, level=Level.OK, text=f"it knows node {look.node}")
    yield from _classes(machine, look)


def _classes(machine: Machine, look: ApiLook) -> Iterator[Line]:
    driver = machine.config.dra.driver
    if look.classes is None or not machine.config.nic.groups:
        return
    if not any(driver in selectors for selectors in look.classes.values()):
        yield Line(
            topic=TOPIC,
            level=Level.WARNING,
            text=f"no DeviceClass speaks of {driver}, so no claim can ask for its devices",
            mend="kubectl apply -f configs/kubernetes/deviceclasses.yaml",
        )


async def _look(credentials: Credentials, configured: str, host_name: str, driver: str) -> ApiLook:
    client = KubeClient(credentials)
    look = ApiLook(fault=f"no answer within {LIMIT_S:.0f} s")
    try:
        with trio.move_on_after(LIMIT_S):
            look = await _ask(client, configured, host_name, driver)
    except BerthError as error:
        look = ApiLook(fault=str(error))
    with trio.move_on_after(1) as closing:
        closing.shield = True
        await client.aclose()
    return look


async def _ask(client: KubeClient, configured: str, host_name: str, driver: str) -> ApiLook:
    await client.credentials.login()
    server = KubeServer(client)
    found = await server.server_version()
    look = ApiLook(version=found.text, major=found.major, minor=found.minor)
    choice = choose_node(configured=configured, identity=server.identity, host_name=host_name)
    if choice.name:
        node = await _node(server, choice.name)
        fault = choice.missing(node) if isinstance(node, KubeError) else ""
        version = "" if isinstance(node, KubeError) else node.kubelet_version
        look = attrs.evolve(
            look, node="" if fault else choice.name, node_fault=fault, kubelet_version=version
        )
        if isinstance(node, Node):
            probe = Probe(driver=driver, node_name=node.name)
            look = attrs.evolve(look, declared=node.declared, fates=await _fates(server, probe))
    return attrs.evolve(
        look,
        classes=await _read_classes(client),
        rights=await ask_rights(client, server.identity),
        features=await ask_features(client),
    )


async def _node(server: KubeServer, name: str) -> Node | KubeError:
    try:
        return await server.get_node(name)
    except KubeError as error:
        return error


async def _fates(server: KubeServer, probe: Probe) -> Mapping[str, Fate] | None:
    try:
        return await show(server, probe)
    except KubeError:
        return None


async def _read_classes(client: KubeClient) -> dict[str, str] | None:
    """The selectors of every class, as text; ``None`` where they may not be read."""
    try:
        found = await client.request(Request(method="GET", path=_CLASSES))
    except KubeError:
        return None
    items = found.get("items") if isinstance(found, dict) else None
    return {
        str(item.get("metadata", {}).get("name")): json.dumps(item.get("spec"))
        for item in items or ()
        if isinstance(item, dict)
    }
