"""A site on the emulated machine: what differs there from one in a box."""

from __future__ import annotations

import json

from tests.cluster.api import Object
from tests.cluster.links import describe
from tests.cluster.site import Site
from tests.lab.labnode import LabNode


class LabSite(Site[LabNode]):
    """The machine, our daemon, one namespace."""

    limit_s = 240.0

    def home(self, nic: str) -> Object:
        """A NIC on the node, as `describe` tells it, but for what no one can set.

        A VF's driver calls permanent what was set last, and makes an address up at each bind.
        """
        return {
            key: value for key, value in describe(self.node.run, nic).items() if key != "permaddr"
        }

    def link_of(self, device: str) -> Object:
        """The link at home of a PCI function, by its device's name; empty while it is away."""
        domain, bus, slot, function = device.split("-")[1:]
        address = f"{domain}:{bus}:{slot}.{function}"
        for link in json.loads(self.node.ip("-j", "-d", "link")):
            if link.get("parentdev") == address:
                return dict(link)
        return {"ifname": "", "mtu": 0}

    def kept_for(self, number: int) -> Object:
        """What the first function keeps for one of its VFs."""
        (pf,) = json.loads(self.node.ip("-j", "link", "show", "dev", "ens1"))
        found: Object = pf["vfinfo_list"][number]
        return found
