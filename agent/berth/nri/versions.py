"""Which runtime is on the other side, and what follows from its version.

Source: containerd's and CRI-O's ``go.mod`` and sandbox code per tag, containerd/nri's api.proto per
tag; measured where the NRI contracts say so.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import attrs

EVENTS_BEFORE_0_10 = 0x07FF
"""Event bits that every NRI knows; any other bit makes an older one throw the plugin out."""

EVENTS_SINCE_0_10 = 0x3FFF
"""Event bits that NRI 0.10 and later know."""

CONTAINERD_NAMES = ("containerd", "v2")
"""containerd 2.0.0 gave ``v2`` as its name."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(-(?:alpha|beta|rc))?")
_UNKNOWN_NRI = (0, 0, 0)


class Version(NamedTuple):
    """A version as far as it decides anything; a pre-release sorts before its release."""

    major: int
    minor: int
    patch: int = 0
    released: int = 1


def parse_version(text: str) -> Version | None:
    """Reads ``v2.4.2``, ``2.4.2+unknown``, ``1.7.24~ds1``, ``2.3.0-rc.1``; else ``None``."""
    match = _VERSION.match(text)
    if match is None:
        return None
    major, minor, patch, early = match.groups()
    return Version(int(major), int(minor), int(patch or 0), 0 if early else 1)


@attrs.frozen(kw_only=True)
class Runtime:
    """What the runtime says of itself in Configure.

    Attributes:
        name: ``containerd``, ``cri-o``, or what it says else.
        version: As it says, often with a vendor's suffix.
        nri_version: Only from NRI 0.12 on, and not always a version then; else empty.
        registration_timeout_s: How long it waits for a registration.
        request_timeout_s: How long it waits for an answer to Configure, Synchronize or an event.
    """

    name: str
    version: str
    nri_version: str = ""
    registration_timeout_s: float = 5.0
    request_timeout_s: float = 2.0

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def known_events(runtime: Runtime) -> int:
    """Gives the event bits that ``runtime`` is sure to know.

    Its NRI version decides where it is told and can be read, else the runtime's own. Whoever is
    unknown gets what all know.
    """
    nri = parse_version(runtime.nri_version)
    if nri is not None and nri[:3] != _UNKNOWN_NRI:
        return EVENTS_SINCE_0_10 if nri >= Version(0, 10) else EVENTS_BEFORE_0_10
    version = parse_version(runtime.version)
    since = Version(2, 2) if runtime.name in CONTAINERD_NAMES else Version(1, 34)
    named = (*CONTAINERD_NAMES, "cri-o")
    if version is not None and runtime.name in named and version >= since:
        return EVENTS_SINCE_0_10
    return EVENTS_BEFORE_0_10


def leaks_failed_sandboxes(runtime: Runtime) -> bool:
    """Whether an error from RunPodSandbox leaves a running sandbox behind.

    containerd 2.0, 2.1, 2.2 up to 2.2.5 and 2.3 up to 2.3.2 do not stop the pause container then;
    it keeps the namespace alive, and enough of them keep containerd from starting. There the pod is
    refused in CreateContainer instead, which is safe everywhere, so a containerd whose version
    cannot be read counts as one of them. Source: containerd/containerd#13355, #13609, #13859.
    """
    if runtime.name not in CONTAINERD_NAMES:
        return False
    version = parse_version(runtime.version)
    if version is None:
        return True
    healed = {2: Version(2, 2, 6), 3: Version(2, 3, 3)}
    in_doubt = Version(2, 0, 0, 0) <= version < Version(2, 4, 0, 0)
    return in_doubt and version < healed.get(version.minor, Version(2, 4))
