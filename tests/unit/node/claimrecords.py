"""A claim's record with a value in every kind of field."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import attrs

from berth.model.claim import ClaimRef, Consumer, DeviceResult, NetworkData
from berth.model.device import Version
from berth.nic.record import Stage
from berth.node.records.record import ClaimRecord, HeldDevice
from tests.unit.nic.links import (
    SANDBOX,
    address_of,
    config_of,
    link_of,
    neighbor_of,
    originals_of,
    record_of,
    route_of,
)

ORIGINALS = originals_of(
    link_of("ens1f0", altnames=("enp1s0",), alias="rack é"),
    addresses=(address_of("192.0.2.1/24", label="ens1f0"), address_of("2001:db8::1/64")),
    routes=(
        route_of("198.18.0.0/16", "192.0.2.9", metrics=((2, 1300), (8, 10))),
        route_of("::/0", "fe80::1", preferred_source=ip_address("2001:db8::1")),
        route_of("10.0.0.0/8", source=ip_network("2001:db8::/32")),
    ),
    neighbors=(neighbor_of("192.0.2.9", "02:00:00:00:00:99"),),
    sysctls={"ipv4/rp_filter": 2, "ipv6/accept_dad": -1},
    switches={"feature/rx-gro": False},
)
CONFIG = config_of(
    interface={"mtu": 1400, "promiscuous": False},
    addresses=[{"address": "192.0.2.5/24", "peer": "192.0.2.6"}, {"address": "2001:db8::5/64"}],
    routes=[{"to": "default", "via": "192.0.2.6"}, {"to": "2001:db8:1::/48", "via": "fe80::1"}],
    rules=[{"priority": 100, "from": "192.0.2.0/24", "table": 254, "fwmark": 5}],
    neighbors=[{"address": "192.0.2.6", "hardwareAddr": "02:00:00:00:00:99"}],
)
NIC = record_of(
    link_of(),
    originals=ORIGINALS,
    config=CONFIG,
    stage=Stage.ATTACHED,
    sandbox=SANDBOX,
    pod_index=7,
    network=NetworkData(interface_name="net1", ips=("192.0.2.5/24",), hardware_address="02:00"),
    duplicates=("2001:db8::5/64",),
)
RECORD = ClaimRecord(
    claim=ClaimRef(namespace="team", name="claim", uid="u1"),
    pod_claim_name=None,
    consumers=(Consumer(resource="pods", name="pod", uid="pod-uid"),),
    driver="berth.dev",
    boot_id="boot",
    devices=(
        HeldDevice(
            result=DeviceResult(
                request="nics/first", pool="node/nic", device="nic-a", consumed={"slots": "1"}
            ),
            identity=NIC.identity,
            type="nic",
            attributes={"sriov": True, "mtu": 1500, "driver": "ice", "fw": Version("1.2.3")},
            nic=NIC,
            told=NIC.network,
        ),
        HeldDevice(
            result=DeviceResult(request="look", pool="node/nic", device="b", admin_access=True),
            identity="pci:0000:41:00.0",
            type="nic",
            attributes={},
        ),
    ),
    generation=3,
    prepared=True,
)


def of_claim(uid: str, **more: Any) -> ClaimRecord:
    """A record of another claim."""
    return attrs.evolve(RECORD, claim=attrs.evolve(RECORD.claim, uid=uid), **more)
