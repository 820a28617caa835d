"""Kubelet towards its plugins, as a stand-in that behaves as it was seen.

It looks for registration sockets each second, asks, tells the outcome and keeps one connection to
each driver (`registry`). Claims are prepared over it with kubelet's own deadline (`calls`), and
slices are deleted when kubelet deletes them (`kubelet`): all of the node's at its start, a driver's
after 30 s without it. What drivers tell of their devices' health is read and remembered (`health`,
`healthinfo`). One object is one life of kubelet; a restart is the end of `Kubelet.run` and
a new object.

Its device manager is a life of its own beside it (`devices`): extended resources, the admission of
pods that ask for them, and PodResources (`podlist`). Its Pods service (`ownpods`) is apart, as a
kubelet before 1.37 has none.

Left out: pods that use claims, and their retries; the rehearsal's story plays them.

Source: KC §1.4, §1.5, §3.2, §3.3, §3.5, §6.2 (kubelet 1.37.2); §1.6, §2 (by the code).
"""

from berth.rehearsal.kubelet.books import Allotment
from berth.rehearsal.kubelet.devices import KubeletDevices
from berth.rehearsal.kubelet.kubelet import Kubelet, Wipe
from berth.rehearsal.kubelet.notes import Act, Note

__all__ = ["Act", "Allotment", "Kubelet", "KubeletDevices", "Note", "Wipe"]
