"""Byte vectors of whole multiplexer frames, and short ways to make bytes in tests.

The first three vectors were accepted by the Go runtime side of containerd 1.7.24, 2.1.6 and main;
requests are laid out as those sent them. Source: the project's NRI contracts, section 9.
"""

from __future__ import annotations

import struct

from berth.nri import mux

REGISTER = bytes.fromhex(
    "0000000200000052 00000048000000010100"
    "0a1c6e72692e706b672e6170692e7631616c706861312e52756e74696d65120e5265676973746572506c7567696e"
    "1a180a096e69632d6167656e74120231301a0776302e31322e30"
)
CONFIGURE_ANSWER_OLD_EVENTS = bytes.fromhex("000000010000000f 00000005000000010200 120310ff0f")
EMPTY_ANSWER_3 = bytes.fromhex("000000010000000a 00000000000000030200")
REFUSAL_7 = bytes.fromhex(
    "000000010000001d 00000013000000070200 0a110809120d6e6963206e6f74207265616479"
)
UNIMPLEMENTED_5 = bytes.fromhex(
    "0000000100000024 0000001a000000050200 0a18080c12146d6574686f642052756e506f6453616e64626f78"
)
CONFIGURE_ANSWER_POD_EVENTS = bytes.fromhex("000000010000000e 00000004000000010200 12021007")
CREATE_ANSWER_7 = bytes.fromhex("0000000100000016 0000000c000000070200 120a0a0822060a014b120156")
CONFIGURE = bytes.fromhex(
    "000000010000004f 00000045000000010100"
    "0a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e1209436f6e666967757265"
    "1a15120a636f6e7461696e6572641a0776312e372e3234 2080a8d6b907"
)
SYNCHRONIZE_NOTHING = bytes.fromhex(
    "000000010000003a 00000030000000030100"
    "0a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e120b53796e6368726f6e697a65"
    "2080a8d6b907"
)
STATE_CHANGE_RUN = bytes.fromhex(
    "0000000100000072 00000068000000050100"
    "0a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e120b53746174654368616e6765"
    "1a36080112320a0273311201701a02753122026e7342212a1f0a076e6574776f726b"
    "12142f7661722f72756e2f6e65746e732f636e692d31"
    "2080a8d6b907"
)
RUN_POD_SANDBOX = bytes.fromhex(
    "0000000100000072 00000068000000050100"
    "0a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e120d52756e506f6453616e64626f78"
    "1a340a320a0273311201701a02753122026e7342212a1f0a076e6574776f726b"
    "12142f7661722f72756e2f6e65746e732f636e692d31"
    "2080a8d6b907"
)


def ttrpc_frame(stream: int, kind: int, data: bytes = b"", *, length: int | None = None) -> bytes:
    """Gives one ttrpc frame, with a false length if told."""
    size = len(data) if length is None else length
    return struct.pack(">IIBB", size, stream, kind, 0) + data


def to_plugin(message: bytes) -> bytes:
    """Wraps a ttrpc frame for the connection on which the plugin serves."""
    return mux.frames(mux.PLUGIN_CONNECTION, message)


def to_plugin_client(message: bytes) -> bytes:
    """Wraps a ttrpc frame for the connection on which the plugin calls."""
    return mux.frames(mux.RUNTIME_CONNECTION, message)
