"""What a container gets of a GPU, by our own list: nodes, libraries, sockets, one variable.

Nodes are given with their numbers, so a runtime needs no node of the host. One that is missing
there is given all the same while its number is known, and told; one whose major number nobody knows
makes the device unusable until the module is loaded.

Libraries are bound into two folders: the C library searches its default folders even where its
cache lacks the name, so no hook and no ``LD_LIBRARY_PATH`` is needed.

Knowingly not done: CUDA compatibility libraries, Vulkan, EGL, and hiding
``/proc/driver/nvidia/params``.

Source: GH §3.3, §3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from berth.host.hardware import PciFunction
from berth.host.nvidiafiles import HostNode, Library, NodeFacts
from berth.model.edits import DeviceNode, Edits, Mount, NodeType
from berth.model.gpu import Gpu, MigDevice
from berth.vfio.wayin import WayIn, handed, node_paths

MAJOR: Final = 195
"""Major number of ``nvidiactl``, ``nvidia<n>`` and ``nvidia-modeset``; assigned for good."""

CONTROL_MINOR: Final = 255
MODESET_MINOR: Final = 254

HIDDEN: Final = "NVIDIA_VISIBLE_DEVICES=void"
"""Makes the hook of an older runtime do nothing, whatever the image asks of it."""

_FILE: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_SOCKET: Final = ("nosuid", "nodev", "noexec", "rbind", "rprivate")
_CAPS: Final = "/dev/nvidia-caps/nvidia-cap"


@attrs.frozen(kw_only=True)
class Draft:
    """What a device comes to.

    Attributes:
        edits: The device's own.
        common: Once for a container, however many devices it has.
        missing: Nodes that the host lacks, and that are given all the same.
        unknown: Nodes whose numbers nobody knows; with any the device cannot be used.
    """

    edits: Edits = Edits()
    common: Edits = Edits()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def gpu_draft(gpu: Gpu, facts: NodeFacts, *, graphics: bool = False) -> Draft:
    """The draft of a whole GPU.

    Args:
        graphics: Whether its nodes for graphics are given as well.
    """
    return _draft(_own(gpu, facts, graphics=graphics), facts)


def mig_draft(gpu: Gpu, mig: MigDevice, facts: NodeFacts, *, graphics: bool = False) -> Draft:
    """The draft of a part: the node of its GPU, and the capabilities to its instances."""
    gi = f"gpu{gpu.minor}/gi{mig.gi_id}"
    names = (f"{gi}/access", f"{gi}/ci{mig.ci_id}/access")
    capabilities = (_capability(name, facts) for name in names)
    return _draft((*_own(gpu, facts, graphics=graphics), *capabilities), facts)


def monitor_nodes(facts: NodeFacts) -> tuple[DeviceNode, ...]:
    """What lets an admin's container see all instances; nothing lets it change them."""
    found = _capability("monitor", facts)
    return (found.node,) if found.node is not None else ()


def vfio_draft(function: PciFunction, facts: NodeFacts, way: WayIn) -> Draft:
    """The draft of a function that vfio-pci has; a node that is missing is unknown."""
    name = facts.functions[function.address].vfio if function.address in facts.functions else ""
    paths = node_paths(way, group=function.iommu_group, name=name)
    known = [facts.nodes[path] for path in paths if path in facts.nodes]
    edits = Edits(env=(HIDDEN,), nodes=tuple(map(handed, known)))
    return Draft(edits=edits, unknown=tuple(path for path in paths if path not in facts.nodes))


@attrs.frozen(kw_only=True)
class _Wanted:
    """A node that a device needs.

    Attributes:
        node: ``None`` when its numbers are unknown.
        absent: The host has none at this path.
    """

    path: str
    node: DeviceNode | None
    absent: bool = False


def _draft(own: Iterable[_Wanted], facts: NodeFacts) -> Draft:
    own, control = tuple(own), tuple(_control(facts))
    libraries = tuple(mount for each in facts.libraries for mount in _binds(each, facts))
    extras = tuple(_extra(path) for path in facts.extras)
    every = (*control, *own)
    return Draft(
        edits=Edits(nodes=tuple(each.node for each in own if each.node is not None)),
        common=Edits(
            env=(HIDDEN,),
            nodes=tuple(each.node for each in control if each.node is not None),
            mounts=libraries + extras,
        ),
        missing=tuple(each.path for each in every if each.absent and each.node is not None),
        unknown=tuple(each.path for each in every if each.node is None),
    )


def _control(facts: NodeFacts) -> Iterator[_Wanted]:
    """Nodes of the driver as a whole: what is required, and what is given where it is there."""
    uvm = facts.majors.get("nvidia-uvm")
    yield _numbered("/dev/nvidiactl", MAJOR, CONTROL_MINOR, facts)
    yield _numbered("/dev/nvidia-uvm", uvm, 0, facts)
    if "/dev/nvidia-uvm-tools" in facts.nodes:
        yield _numbered("/dev/nvidia-uvm-tools", uvm, 1, facts)
    if "/dev/nvidia-modeset" in facts.nodes:
        yield _numbered("/dev/nvidia-modeset", MAJOR, MODESET_MINOR, facts)


def _own(gpu: Gpu, facts: NodeFacts, *, graphics: bool) -> Iterator[_Wanted]:
    number = "?" if gpu.minor is None else gpu.minor
    yield _numbered(f"/dev/nvidia{number}", MAJOR, gpu.minor, facts)
    files = facts.functions.get(gpu.address)
    for path in files.drm if graphics and files is not None else ():
        if path in facts.nodes:
            yield _Wanted(path=path, node=handed(facts.nodes[path]))


def _capability(name: str, facts: NodeFacts) -> _Wanted:
    minor = facts.capabilities.get(name)
    if minor is None:
        return _Wanted(path=f"capability {name}", node=None)
    return _numbered(f"{_CAPS}{minor}", facts.majors.get("nvidia-caps"), minor, facts)


def _numbered(path: str, major: int | None, minor: int | None, facts: NodeFacts) -> _Wanted:
    """A node by the numbers that it must have; the host's node gives only mode and owner.

    A node of the host with other numbers is a left-over of an earlier boot, and no node of ours.
    """
    if major is None or minor is None:
        return _Wanted(path=path, node=None, absent=True)
    there = facts.nodes.get(path)
    good = there is not None and (there.type, there.major, there.minor) == (
        NodeType.CHAR,
        major,
        minor,
    )
    plain = HostNode(path=path, type=NodeType.CHAR, major=major, minor=minor, mode=0o666)
    used = there if there is not None and good else plain
    return _Wanted(path=path, node=handed(used), absent=not good)


def _binds(library: Library, facts: NodeFacts) -> Iterator[Mount]:
    for folder in (f"/usr/lib/{facts.multiarch}", "/usr/lib64"):
        for name in library.names:
            path = f"{folder}/{name}"
            yield Mount(host_path=library.path, container_path=path, options=_FILE)


def _extra(path: str) -> Mount:
    options = _SOCKET if path.endswith("/socket") else _FILE
    return Mount(host_path=path, container_path=path, options=options)
