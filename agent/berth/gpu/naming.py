"""Names of GPUs and of their parts: from places, so that they outlive reboots and renumbering.

No index, minor number or order of appearance enters a name. A part is called by its profile and
where it lies, which is the same each time the same layout is made; only without the right to ask
for placements by the ids of its instances.

Source: GH §1.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from berth.model.gpu import Gpu, MigDevice
from berth.model.names import device_name, slug

_PROFILE: Final = re.compile(r"([0-9]{1,2}c\.)?[0-9]{1,2}g\.[0-9]{1,4}gb([+-][a-z0-9.+-]{1,24})?")


def gpu_name(address: str) -> str:
    """Slice name of a whole GPU."""
    return device_name("gpu", address)


def vfio_name(address: str) -> str:
    """Slice name of a GPU that is bound to vfio-pci."""
    return device_name("vfio", address)


def gpu_identity(address: str) -> str:
    """What the GPU is physically."""
    return f"pci:{address}"


def vfio_identity(address: str) -> str:
    """What the GPU is as a function for machines: another thing than the whole GPU, in one place.

    Its keys in the ledger tell that both are one card.
    """
    return f"{gpu_identity(address)}/vfio"


def profile_of(mig: MigDevice, gpu: Gpu) -> str:
    """The profile of a part, such as ``1g.10gb`` or ``1c.2g.20gb``; empty when nothing tells it.

    The part's own name tells it best: it knows of compute instances that are smaller than their
    GPU instance, and of the variants of one size.
    """
    told = mig.name.rpartition("MIG ")[2].strip().lower()
    if _PROFILE.fullmatch(told):
        return told
    names = (profile.name.lower() for profile in gpu.mig_profiles if profile.id == mig.gi_profile)
    name = next(names, "")
    return name if _PROFILE.fullmatch(name) else ""


def mig_names(gpu: Gpu) -> Mapping[str, str]:
    """Slice name of each part, by its UUID.

    Two that would be called alike are called by their ids, both of them.
    """
    siblings = Counter(mig.gi_id for mig in gpu.mig_devices)
    names = {mig.uuid: _placed(gpu, mig, siblings[mig.gi_id]) for mig in gpu.mig_devices}
    times = Counter(names.values())
    return {
        mig.uuid: names[mig.uuid] if times[names[mig.uuid]] == 1 else _by_ids(gpu, mig)
        for mig in gpu.mig_devices
    }


def mig_identity(gpu: Gpu, mig: MigDevice) -> str:
    """What the part is physically: its GPU, its profile and where it lies."""
    gi, ci = mig.gi_placement, mig.ci_placement
    if gi is None or ci is None:
        return f"{gpu_identity(gpu.address)}/gi{mig.gi_id}/ci{mig.ci_id}"
    profile = profile_of(mig, gpu) or "mig"
    place = f"{gi.start}+{gi.size}/{ci.start}+{ci.size}"
    return f"{gpu_identity(gpu.address)}/{profile}/{place}"


def _placed(gpu: Gpu, mig: MigDevice, siblings: int) -> str:
    """The name by placement; by ids where that is not known."""
    gi, ci = mig.gi_placement, mig.ci_placement
    if gi is None or (siblings > 1 and ci is None):
        return _by_ids(gpu, mig)
    inner = f"-{ci.start}" if siblings > 1 and ci is not None else ""
    return device_name("gpu", f"{gpu.address}-mig-{_word(gpu, mig)}-{gi.start}{inner}")


def _by_ids(gpu: Gpu, mig: MigDevice) -> str:
    text = f"{gpu.address}-mig-{_word(gpu, mig)}-gi{mig.gi_id}-ci{mig.ci_id}"
    return device_name("gpu", text)


def _word(gpu: Gpu, mig: MigDevice) -> str:
    """The profile as part of a name: ``1g.10gb+me`` becomes ``1g10gb-me``.

    There are profiles without what others have, such as ``1g.24gb-me``: ``1g24gb-no-me``.
    """
    profile = profile_of(mig, gpu).replace(".", "").replace("-", "-no-")
    return slug(profile) if profile else "part"
