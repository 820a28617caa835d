"""gRPC for trio: the only place that knows grpcio.

grpcio runs on asyncio's loop in a thread of its own (`berth.runtime.asyncthread`). Each call that
comes in becomes a task in the nursery of the `GrpcServer` that took it, so it ends with the plugin
that serves it. Calls that go out are made on a `GrpcChannel`. Both read names and types from
`berth.runtime.methods`, and neither needs generated service code.
"""

from berth.runtime.grpcbridge.client import GrpcChannel, Replies, open_channel
from berth.runtime.grpcbridge.server import GrpcServer, GrpcStatistics
from berth.runtime.grpcbridge.setup import protobuf_fault

__all__ = [
    "GrpcChannel",
    "GrpcServer",
    "GrpcStatistics",
    "Replies",
    "open_channel",
    "protobuf_fault",
]
