"""Kubelet's client side of plugin registration and DRA, as a stand-in that behaves as it was seen.

It looks for registration sockets each second, asks, tells the outcome and keeps one connection to
each driver (`registry`). Claims are prepared over it with kubelet's own deadline (`calls`), and
slices are deleted when kubelet deletes them (`kubelet`): all of the node's at its start, a driver's
after 30 s without it. One object is one life of kubelet; a restart is the end of `Kubelet.run` and
a new object.

Left out: pods, their retries and the checkpoint; the rehearsal's story plays them.

Source: KC §1.4, §1.5, §3.2, §3.3, §3.5 (kubelet 1.37.2).
"""

from berth.rehearsal.kubelet.kubelet import Kubelet, Wipe
from berth.rehearsal.kubelet.notes import Act, Note

__all__ = ["Act", "Kubelet", "Note", "Wipe"]
