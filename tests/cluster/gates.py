"""The feature gates with which a cluster of the tests is started: one way for all tests."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Gates(Enum):
    """A setting of all gates, for every component and every kubelet of the control plane's version.

    With all of them on, 1.37.2 runs as ever: none had to be left out. A test that wants one gate
    otherwise merges it in: ``{**Gates.ALL_ALPHA.flags, "DRADerivedAttributes": False}``.
    """

    DEFAULT = "defaults"
    ALL_ALPHA = "all-alpha"

    @property
    def flags(self) -> Mapping[str, bool]:
        """What differs from the defaults."""
        return _FLAGS[self]


_FLAGS = {
    Gates.DEFAULT: MappingProxyType[str, bool]({}),
    # DRAWorkloadResourceClaims, beta and off, stands on GenericWorkload, which is so too.
    Gates.ALL_ALPHA: MappingProxyType({"AllAlpha": True, "AllBeta": True}),
}
