"""How grpcio and protobuf are set up here, for server and client alike."""

from __future__ import annotations

from typing import Final

from google.protobuf.internal import api_implementation

MESSAGE_LIMIT: Final = 16 * 1024 * 1024
"""Largest message in bytes either way; grpcio's own 4 MiB is too small for PodResources."""

CONNECTION_CALLS: Final = 512
"""Calls of one connection at a time; its client keeps further ones back.

It is half of what a server takes. grpcio cannot give up a call whose client does not read, even
when its handler has ended, so a client that reads nothing must not be able to take all."""

Options = tuple[tuple[str, int], ...]

_COMMON: Final[Options] = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
)

SERVER_OPTIONS: Final[Options] = (
    *_COMMON,
    # kubelet's client sends a PING after each answer; that is no reason to hang up.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", CONNECTION_CALLS),
)


def client_options(*, reconnect_s: float) -> Options:
    """Give the options of a channel.

    Args:
        reconnect_s: Longest pause between two attempts to connect, in seconds.
    """
    pause_ms = max(1, round(reconnect_s * 1000))
    return (
        *_COMMON,
        # Not grpc.min_reconnect_backoff_ms: it limits the wait for the server's first frame, which
        # may take its 20 s while a daemon is replaced behind a socket that is kept.
        ("grpc.initial_reconnect_backoff_ms", min(100, pause_ms)),
        ("grpc.max_reconnect_backoff_ms", pause_ms),
        # Channels to one path share connection and back-off otherwise, also between tests.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    )


def protobuf_fault(kind: str | None = None) -> str | None:
    """Say what is wrong with protobuf's implementation; None when it is the fast one.

    A message of 4 MiB takes 13 ms to parse on upb and 1.5 s on pure Python.

    Args:
        kind: Name of the implementation; None asks protobuf.
    """
    kind = api_implementation.Type() if kind is None else kind
    if kind == "upb":
        return None
    return (
        f"protobuf runs on {kind!r} instead of 'upb': parsing is about a hundred times slower; "
        "install protobuf's binary wheel and unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
    )
