"""What the device plugin lists of NICs: from looks, settings and holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.config.doors import Door
from berth.config.match import PfPattern
from berth.config.nic import NicTable
from berth.config.nicgroup import Attach, NicGroup, NicShared
from berth.host.nicnodes import RDMA_CM, TUN, VHOST_NET, NicNodes
from berth.model import peripheral
from berth.model.device import Exclusion, NicMode
from berth.model.edits import DeviceNode, NodeType
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, Peripheral
from berth.model.resource import Unit
from berth.nic.config.values import NicConfig
from berth.nic.record import NicRecord, Stage
from berth.node.inventory.sighting import Memory, Outlook
from berth.node.inventory.snapshot import judge
from berth.node.ledger import Ledger, PluginHolder
from berth.node.plugin.units import resources
from berth.node.records.given import Given, GivenDevice
from tests.unit.nic.machine import BOOT, Machine, group
from tests.unit.node.holds import held, record

PF = "0000:41:00.0"
NIC = f"pci:{PF}"
NAME = "nic-0000-41-00-0"
RESOURCE = "lab.example/fast"
CLOSED = Exclusion(reason="not-connected", detail="no NRI")


def fast(**keys: Any) -> NicGroup:
    """A group whose NICs are asked for as resources."""
    keys = {"vendor": ("15b3",), "door": Door.PLUGIN, "resource": RESOURCE, **keys}
    return group("fast", **keys)


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    """A machine with one NIC beside its loopback."""
    machine = Machine(tmp_path / "machine")
    machine.tree.function(PF, numa_node=1)
    machine.nic("ens1f0", PF)
    return machine


def look(
    machine: Machine, *groups: NicGroup, nodes: NicNodes | None = None, **outlook: Any
) -> Inventory:
    """Look at it."""
    scan = attrs.evolve(machine.scan(), nodes=nodes or NicNodes())
    table = NicTable(groups=groups)
    return judge(scan, Outlook(table=table, driver="berth.dev", **outlook), Memory()).inventory


def one(inventory: Inventory) -> Peripheral:
    """The only listing."""
    (listing,) = inventory.listings
    return listing


def units(inventory: Inventory) -> tuple[Unit, ...]:
    """What kubelet is told."""
    (resource,) = resources(inventory, Ledger())
    return resource.units


def given(listing: Peripheral, *, stage: Stage = Stage.LENT) -> Given:
    """The listing, given to a container."""
    nic = NicRecord(
        identity=listing.identity,
        device=listing.name,
        group=listing.group,
        config=NicConfig(),
        boot_id=BOOT,
        stage=stage,
    )
    return Given(
        holder=PluginHolder(uid="g", resource=listing.resource, ids=listing.ids, since="today"),
        devices=(GivenDevice(id=listing.ids[0], peripheral=listing, nic=nic),),
        boot_id=BOOT,
    )


def node(path: str) -> DeviceNode:
    """A node of the machine."""
    return DeviceNode(path=path, host_path=path, type=NodeType.CHAR, major=10, minor=1)


def test_nic_is_listed_by_its_address(machine: Machine) -> None:
    """With its NUMA node, and in no slice."""

    inventory = look(machine, fast())

    assert units(inventory) == (
        Unit(id=PF, device=NAME, numa=(1,), pcie_root=one(inventory).pcie_root),
    )
    assert inventory.devices == ()
    assert one(inventory).keys == (NIC,)


def test_resource_is_named_by_driver_and_group(machine: Machine) -> None:
    """Unless the group names it."""

    assert one(look(machine, fast(resource=""))).resource == "berth.dev/fast"


def test_topology_can_be_left_out(machine: Machine) -> None:
    """Kubelet then aligns nothing to it."""

    assert units(look(machine, fast(exclude_topology=True)))[0].numa == ()


@pytest.mark.parametrize(
    ("door", "auto", "in_slices", "listed"),
    [
        (Door.DRA, peripheral.Door.DRA, True, False),
        (Door.PLUGIN, peripheral.Door.DRA, False, True),
        (Door.BOTH, peripheral.Door.DRA, True, True),
        (Door.AUTO, peripheral.Door.DRA, True, False),
        (Door.AUTO, peripheral.Door.PLUGIN, False, True),
    ],
)
def test_door_decides_where_a_nic_is_offered(
    machine: Machine, door: Door, auto: peripheral.Door, *, in_slices: bool, listed: bool
) -> None:
    """In slices, in the list, or in both."""

    inventory = look(machine, fast(door=door), auto=auto)

    assert bool(inventory.devices) == in_slices
    assert bool(inventory.listings) == listed


def test_excluded_nic_stays_in_the_list_as_unhealthy(machine: Machine) -> None:
    """The uplink is given to nobody, and the number of units stays what the machine has."""

    machine.route("0.0.0.0/0", "ens1f0", via="192.0.2.1")
    inventory = look(machine, fast())

    assert [unit.healthy for unit in units(inventory)] == [False]
    assert "uplink" in one(inventory).obstacle


def test_nic_for_a_cni_plugin_is_offered_without_the_runtime(machine: Machine) -> None:
    """Berth's hook moves nothing of it; what the hook moves is unhealthy meanwhile."""

    assert [unit.healthy for unit in units(look(machine, fast(), closed=CLOSED))] == [True]
    by_hook = look(machine, fast(attach=Attach.NRI), closed=CLOSED)
    assert [unit.healthy for unit in units(by_hook)] == [False]
    both = look(machine, fast(door=Door.BOTH), closed=CLOSED)
    assert both.devices == ()
    assert [unit.healthy for unit in units(both)] == [True]


def test_shared_parent_has_an_id_for_each_slot(machine: Machine) -> None:
    """The address, and the number of the share."""

    inventory = look(machine, fast(mode=NicMode.SHARED, shared=NicShared(slots=2)))

    assert [unit.id for unit in units(inventory)] == [f"{PF}::0", f"{PF}::1"]


def test_virtual_link_is_listed_by_its_slice_name(machine: Machine) -> None:
    """It has no address."""

    machine.link("left", kind="veth")
    inventory = look(machine, fast(vendor=(), name=("left",)))

    assert [unit.id for unit in units(inventory)] == ["nic-fast-left"]


def test_vf_counts_as_a_share_of_its_pf(machine: Machine) -> None:
    """So that virtual functions are spread over physical ones."""

    machine.vf("ens1f0v0", "0000:41:10.0", pf=PF, number=0)
    inventory = look(machine, fast(vendor=(), pf=(PfPattern(pf="ens1f0"),)))

    assert [unit.bearer for unit in units(inventory)] == [PF]
    info = one(inventory).info
    assert info is not None
    assert (info.address, info.pf) == ("0000:41:10.0", PF)


def test_nodes_go_with_the_nic(machine: Machine) -> None:
    """Those of its RDMA device and, on request, of the host's packet queue."""

    machine.tree.rdma("mlx5_0", machine.tree.folder(PF))
    uverbs = "/dev/infiniband/uverbs0"
    there = {path: node(path) for path in (uverbs, RDMA_CM, VHOST_NET, TUN)}
    nodes = NicNodes(rdma={"mlx5_0": (uverbs,)}, known=there)
    listing = one(look(machine, fast(vhost=True), nodes=nodes))

    assert [each.path for each in listing.edits.nodes] == [uverbs, RDMA_CM, VHOST_NET, TUN]
    assert listing.info is not None
    assert listing.info.sections == {
        "generic": {"deviceID": PF},
        "rdma": {"uverbs": uverbs, "rdma_cm": RDMA_CM, "rdma_dev": "mlx5_0"},
        "vhost": {"net-mount": VHOST_NET, "tun-mount": TUN},
    }


def test_nic_without_one_of_its_nodes_is_unhealthy(machine: Machine) -> None:
    """A container would be given a part of it."""

    inventory = look(machine, fast(vhost=True))

    assert [unit.healthy for unit in units(inventory)] == [False]
    assert VHOST_NET in one(inventory).obstacle


def test_nic_that_a_claim_has_is_unhealthy_though_nobody_sees_it(machine: Machine) -> None:
    """With door "both" its id stays in the list."""

    left = machine.link("left", kind="veth")
    identity = f"link:{BOOT}:{left.index}"
    claim = record("a", held(identity, "nic-fast-left"))
    machine.links.pop("left")
    inventory = look(machine, fast(vendor=(), name=("left",), door=Door.BOTH), records=[claim])

    assert [(unit.id, unit.healthy) for unit in units(inventory)] == [("nic-fast-left", False)]


def test_given_nic_is_well_wherever_its_link_is(machine: Machine) -> None:
    """A CNI plugin has moved it into a pod: it is known as held, and not as lost."""

    listing = one(look(machine, fast()))
    machine.links.pop("ens1f0")
    inventory = look(machine, fast(), given=[given(listing)])

    (nic,) = inventory.nics
    assert (nic.exclusion, bool(nic.held_by)) == (None, True)
    assert [unit.healthy for unit in units(inventory)] == [True]


def test_given_nic_that_is_gone_is_unhealthy(machine: Machine, tmp_path: Path) -> None:
    """Its holder is told so."""

    listing = one(look(machine, fast()))
    inventory = look(Machine(tmp_path / "other"), fast(), given=[given(listing)])

    assert one(inventory).unhealthy == ABSENT


@pytest.mark.parametrize(
    "groups", [(), (fast(door=Door.DRA),), (fast(resource="lab.example/other"),)]
)
def test_given_nic_keeps_its_door_until_it_is_free(
    machine: Machine, groups: Sequence[NicGroup]
) -> None:
    """However the settings turn (L13)."""

    listing = one(look(machine, fast()))
    inventory = look(machine, *groups, given=[given(listing)])

    assert one(inventory).resource == RESOURCE
    assert inventory.devices == ()


def test_given_nic_of_both_doors_stays_in_its_slice_with_a_taint(machine: Machine) -> None:
    """The scheduler passes it over until it is free (L9)."""

    listing = one(look(machine, fast(door=Door.BOTH)))
    machine.links.pop("ens1f0")
    (device,) = look(machine, fast(door=Door.BOTH), given=[given(listing)]).devices

    assert device.name == NAME
    assert [taint.key for taint in device.taints] == ["berth.dev/held"]
    assert device.attributes["ifName"] == "ens1f0"


@pytest.mark.parametrize(
    ("fault", "health"), [("", ""), ("MTU 1500 was refused", "restore-failed")]
)
def test_given_nic_that_is_not_restored_is_unhealthy(
    machine: Machine, fault: str, health: str
) -> None:
    """The next pod could not have it."""

    held_one = given(one(look(machine, fast())), stage=Stage.RETURNING)
    nic = held_one.nics[0]
    assert nic is not None
    told = held_one.with_nic(0, attrs.evolve(nic, fault=fault))

    assert one(look(machine, fast(), given=[told])).unhealthy == health
    ended = attrs.evolve(told, revoked=True)
    assert one(look(machine, fast(), given=[ended])).unhealthy == (health or "returning")


def test_shared_parent_that_is_enslaved_gives_no_further_share(machine: Machine) -> None:
    """Though somebody has one already."""

    lan = fast(mode=NicMode.SHARED, shared=NicShared(slots=2))
    listing = one(look(machine, lan))
    share = GivenDevice(id=listing.ids[0], peripheral=listing)
    holder = PluginHolder(uid="g", resource=RESOURCE, ids=listing.ids[:1], since="today")
    had = Given(holder=holder, devices=(share,), boot_id=BOOT)
    assert [unit.healthy for unit in units(look(machine, lan, given=[had]))] == [True, True]

    bond = machine.link("bond0", kind="bond")
    machine.change("ens1f0", master=bond.index)
    now = look(machine, lan, given=[had])
    assert [unit.healthy for unit in units(now)] == [False, False]
    assert "belongs to bond0" in one(now).obstacle


# Functions that vfio-pci has

VFIO_NODES = NicNodes(known={path: node(path) for path in ("/dev/vfio/vfio", "/dev/vfio/7")})


def machines(**keys: Any) -> NicGroup:
    """A group of functions that are bound to vfio-pci."""
    return fast(mode=NicMode.VFIO, **keys)


@pytest.fixture(name="bound")
def _bound(tmp_path: Path) -> Machine:
    """A machine with one NIC, which vfio-pci has, with another endpoint in its group."""
    machine = Machine(tmp_path / "machine")
    machine.tree.function(PF, driver="vfio-pci", iommu_group=7)
    machine.tree.function("0000:41:00.3", class_code=0x010802, driver="", iommu_group=7)
    return machine


def test_function_is_given_by_the_nodes_of_its_group(bound: Machine) -> None:
    """And with the whole group, so that nobody else gets a member."""

    inventory = look(bound, machines(), nodes=VFIO_NODES)

    assert [unit.healthy for unit in units(inventory)] == [True]
    assert inventory.devices == ()
    listing = one(inventory)
    assert listing.type == "nic-vfio"
    assert listing.keys == (NIC, "iommu:7", "pci:0000:41:00.3")
    assert [(each.path, each.permissions) for each in listing.edits.nodes] == [
        ("/dev/vfio/vfio", "rw"),
        ("/dev/vfio/7", "rw"),
    ]
    assert listing.info is not None
    assert listing.info.sections == {
        "generic": {"deviceID": PF},
        "vfio": {"mount": "/dev/vfio/vfio", "dev-mount": "/dev/vfio/7"},
    }


def test_function_without_its_node_is_unhealthy(bound: Machine) -> None:
    """A program could not open it."""

    assert "/dev/vfio/7 is not there" in one(look(bound, machines())).obstacle


def test_function_whose_group_the_host_uses_is_unhealthy(bound: Machine) -> None:
    """By the name of what is in the way."""

    bound.tree.bind(bound.tree.folder("0000:41:00.3"), "nvme")
    inventory = look(bound, machines(), nodes=VFIO_NODES)

    assert [unit.healthy for unit in units(inventory)] == [False]
    assert "0000:41:00.3 of the same group is bound to nvme" in one(inventory).obstacle


def test_function_that_its_own_driver_has_is_given_nothing_of(machine: Machine) -> None:
    """It stays in the list, so that the number of units is what the machine has."""

    inventory = look(machine, machines(allow_noiommu=True), nodes=VFIO_NODES)

    assert [unit.healthy for unit in units(inventory)] == [False]
    assert "not-bound" in one(inventory).obstacle
    assert not one(inventory).edits


@pytest.mark.parametrize("allowed", [True, False])
def test_function_without_iommu_has_another_node_on_the_host(
    tmp_path: Path, *, allowed: bool
) -> None:
    """In the container it is found by its number; and it is given by leave alone."""

    bare = Machine(tmp_path / "bare")
    bare.tree.function(PF, driver="vfio-pci", iommu_group=3)
    (bare.tree.root / "kernel/iommu_groups/3/name").write_text("vfio-noiommu\n")
    known = {path: node(path) for path in ("/dev/vfio/vfio", "/dev/vfio/noiommu-3")}
    listing = one(look(bare, machines(allow_noiommu=allowed), nodes=NicNodes(known=known)))

    assert bool(listing.obstacle) != allowed
    own = listing.edits.nodes[-1]
    assert (own.host_path, own.path) == ("/dev/vfio/noiommu-3", "/dev/vfio/3")
    assert listing.info is not None
    assert listing.info.sections["vfio"]["dev-mount"] == "/dev/vfio/3"


def test_given_function_keeps_its_mode_until_it_is_free(bound: Machine) -> None:
    """Nothing of it is lent; it is well and held, and what it is now follows the machine."""

    listing = one(look(bound, machines(), nodes=VFIO_NODES))
    holder = PluginHolder(uid="g", resource=RESOURCE, ids=listing.ids, since="today")
    had = Given(holder=holder, devices=(GivenDevice(id=PF, peripheral=listing),), boot_id=BOOT)
    inventory = look(bound, machines(), nodes=VFIO_NODES, given=[had])

    (nic,) = [each for each in inventory.nics if each.group == "fast"]
    assert (nic.mode, nic.exclusion, bool(nic.held_by)) == (NicMode.VFIO, None, True)
    assert [unit.healthy for unit in units(inventory)] == [True]
    assert one(inventory).edits == listing.edits
    now_moved = look(bound, fast(), given=[had])
    assert one(now_moved).type == "nic-vfio"


def test_function_whose_group_somebody_has_by_another_is_unhealthy(bound: Machine) -> None:
    """Kubelet, which knows of no groups, would give it to another container."""

    other = "0000:41:00.1"
    bound.tree.function(other, driver="vfio-pci", iommu_group=7)
    listing, _ = look(bound, machines(), nodes=VFIO_NODES).listings
    holder = PluginHolder(uid="g", resource=RESOURCE, ids=listing.ids, since="today")
    had = Given(holder=holder, devices=(GivenDevice(id=PF, peripheral=listing),), boot_id=BOOT)
    inventory = look(bound, machines(), nodes=VFIO_NODES, given=[had])

    assert {unit.id: unit.healthy for unit in units(inventory)} == {PF: True, other: False}
    (obstacle,) = [each.obstacle for each in inventory.listings if each.obstacle]
    assert f"its IOMMU group is with {NAME}, which" in obstacle
