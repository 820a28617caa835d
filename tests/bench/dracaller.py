"""A kubelet of few words: prepares and undoes claims over the real socket, one call at a time.

Run in the node's network namespace, since in turns with each call it takes a link of the same kind
down by one bare netlink message, as a measure of what the kernel alone needs for that. Speaks JSON:
the job on stdin, times in milliseconds on stdout.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import grpc

from berth.pb import dra_v1_pb2

SERVICE: Final = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
LIMIT_S: Final = 45.0

_RTM_NEWLINK: Final = 16
_NLM_F_REQUEST_ACK: Final = 5
_IFF_UP: Final = 1


class BareLink:
    """A link that is taken down and up by one netlink message each.

    Args:
        name: Its name in this namespace.
    """

    def __init__(self, name: str) -> None:
        self._index = socket.if_nametoindex(name)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))

    def set(self, *, up: bool) -> None:
        """Change it, and wait for the kernel's word."""
        flags = _IFF_UP if up else 0
        body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, self._index, flags, _IFF_UP)
        head = struct.pack("=IHHII", 16 + len(body), _RTM_NEWLINK, _NLM_F_REQUEST_ACK, 1, 0)
        self._socket.send(head + body)
        answer = self._socket.recv(4096)
        (error,) = struct.unpack_from("=i", answer, 16)
        if error:
            raise OSError(-error, os.strerror(-error))


def main() -> None:
    """Do the job."""
    job = json.load(sys.stdin)
    with grpc.insecure_channel(f"unix:{job['socket']}") as channel:
        prepare = channel.unary_unary(
            f"{SERVICE}/NodePrepareResources",
            request_serializer=dra_v1_pb2.NodePrepareResourcesRequest.SerializeToString,
            response_deserializer=dra_v1_pb2.NodePrepareResourcesResponse.FromString,
        )
        unprepare = channel.unary_unary(
            f"{SERVICE}/NodeUnprepareResources",
            request_serializer=dra_v1_pb2.NodeUnprepareResourcesRequest.SerializeToString,
            response_deserializer=dra_v1_pb2.NodeUnprepareResourcesResponse.FromString,
        )
        asked = dra_v1_pb2.NodePrepareResourcesRequest(claims=[job["claim"]])
        ended = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=[job["claim"]])
        link = BareLink(job["link"])
        times: dict[str, list[float]] = {"prepare": [], "again": [], "unprepare": [], "down": []}
        for _ in range(job["rounds"]):
            times["prepare"].append(_timed(lambda: _checked(prepare(asked, timeout=LIMIT_S))))
            times["again"].append(_timed(lambda: _checked(prepare(asked, timeout=LIMIT_S))))
            times["unprepare"].append(_timed(lambda: _checked(unprepare(ended, timeout=LIMIT_S))))
            times["down"].append(_timed(lambda: link.set(up=False)))
            link.set(up=True)
    json.dump(times, sys.stdout)


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def _checked(answer: Any) -> None:
    for uid, claim in answer.claims.items():
        if claim.error:
            raise RuntimeError(f"{uid}: {claim.error}")


if __name__ == "__main__":
    main()
