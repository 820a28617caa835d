"""What a container gets of a GPU by our own list."""

from __future__ import annotations

import attrs

from berth.gpu.edits import gpu_draft, mig_draft, monitor_nodes, vfio_draft
from berth.host.nvidiafiles import FunctionFiles, NodeFacts
from berth.vfio.wayin import WayIn
from tests.unit.gpu.machine import address_of, divided, facts, function, gpu, node, part


def test_libraries_are_bound_where_the_c_library_looks() -> None:
    """Into the folders of Debian-like and of Fedora-like images, under every name."""

    mounts = gpu_draft(gpu(0), facts()).common.mounts

    assert {mount.container_path for mount in mounts} >= {
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "/usr/lib64/libcuda.so.1",
    }
    socket = next(mount for mount in mounts if mount.container_path.endswith("socket"))
    assert "ro" not in socket.options
    assert "noexec" in socket.options


def test_missing_node_is_given_and_told_while_its_number_is_known() -> None:
    """With its numbers a runtime makes it without the host's."""

    there = facts()
    nodes = {path: each for path, each in there.nodes.items() if path != "/dev/nvidia0"}

    draft = gpu_draft(gpu(0), attrs.evolve(there, nodes=nodes))

    (given,) = draft.edits.nodes
    assert (given.path, given.major, given.minor, given.file_mode) == (
        "/dev/nvidia0",
        195,
        0,
        0o666,
    )
    assert (draft.missing, draft.unknown) == (("/dev/nvidia0",), ())


def test_node_of_an_earlier_boot_is_no_node_of_ours() -> None:
    """After its major changed a left-over node has the wrong numbers; ours are given."""

    there = facts()
    majors = {**there.majors, "nvidia-uvm": 500}

    draft = gpu_draft(gpu(0), attrs.evolve(there, majors=majors))

    uvm = next(each for each in draft.common.nodes if each.path == "/dev/nvidia-uvm")
    assert (uvm.major, uvm.minor) == (500, 0)
    assert draft.missing == ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def test_unknown_major_makes_the_device_unusable() -> None:
    """Nothing incomplete is handed out while the module is not loaded."""

    assert gpu_draft(gpu(0), NodeFacts()).unknown == ("/dev/nvidia-uvm",)


def test_part_gets_the_capabilities_of_its_own_instances() -> None:
    """Numbers come from the driver's files of this boot, by GPU instance and compute instance."""

    mig = part(1, "1g.10gb", 0, gi_id=9, ci_id=0)
    one, there = divided(6, mig), facts()

    paths = [each.path for each in mig_draft(one, mig, there).edits.nodes]

    gi, ci = (there.capabilities[f"gpu6/gi9{name}/access"] for name in ("", "/ci0"))
    assert paths == [
        "/dev/nvidia6",
        f"/dev/nvidia-caps/nvidia-cap{gi}",
        f"/dev/nvidia-caps/nvidia-cap{ci}",
    ]
    gone = attrs.evolve(there, capabilities={})
    assert mig_draft(one, mig, gone).unknown == (
        "capability gpu6/gi9/access",
        "capability gpu6/gi9/ci0/access",
    )


def test_monitor_sees_instances_and_changes_none() -> None:
    """The capability to look at all of them, never the one to configure."""

    assert [each.path for each in monitor_nodes(facts())] == ["/dev/nvidia-caps/nvidia-cap2"]
    assert monitor_nodes(NodeFacts()) == ()


def test_graphics_are_given_on_request() -> None:
    """The nodes of this GPU alone, and those that exist."""

    there = facts()
    nodes = {**there.nodes, **dict([node("/dev/dri/renderD128", 226, 128)])}
    files = FunctionFiles(drm=("/dev/dri/card0", "/dev/dri/renderD128"))
    there = attrs.evolve(there, nodes=nodes, functions={address_of(0): files})

    with_them = gpu_draft(gpu(0), there, graphics=True).edits.nodes
    assert [each.path for each in with_them] == ["/dev/nvidia0", "/dev/dri/renderD128"]
    assert len(gpu_draft(gpu(0), there).edits.nodes) == 1


def test_machine_gets_its_group_or_its_device() -> None:
    """Either way in, each complete or refused."""

    names = ("/dev/vfio/vfio", "/dev/vfio/40", "/dev/iommu", "/dev/vfio/devices/vfio2")
    nodes = dict(node(path, 10, number) for number, path in enumerate(names))
    there = facts(nodes=nodes, functions={address_of(0): FunctionFiles(vfio="vfio2")})
    bound = function(0, driver="vfio-pci")

    group = vfio_draft(bound, there, WayIn())
    assert [each.path for each in group.edits.nodes] == [*names[:2]]
    assert group.edits.env == ("NVIDIA_VISIBLE_DEVICES=void",)
    assert not group.common
    alone = vfio_draft(bound, there, WayIn(api_device=False))
    assert [each.path for each in alone.edits.nodes] == ["/dev/vfio/40"]
    by_device = vfio_draft(bound, there, WayIn(iommufd=True))
    assert [each.path for each in by_device.edits.nodes] == [*names[2:]]
    nothing = vfio_draft(bound, facts(nodes={}), WayIn(iommufd=True))
    assert nothing.unknown == ("/dev/iommu", "/dev/vfio/devices/?")
