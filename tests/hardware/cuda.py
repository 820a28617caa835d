"""Work for a GPU through the driver's own library, without any toolkit: a PTX text of ours.

Run as a program it does one thing and tells how it went as JSON on its last line:

    python -m tests.hardware.cuda probe       # a kernel writes a number, which is read back
    python -m tests.hardware.cuda busy 3      # a kernel keeps the GPU busy for so many seconds
    python -m tests.hardware.cuda illegal     # a kernel stores to where no memory is

Source: CUDA Driver API 12 (``cuda.h``), PTX ISA 6.0; the context of another process is not
concerned by what dies here.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any, Final

LIBRARY: Final = "libcuda.so.1"

NUMBER: Final = 4711

ILLEGAL_ADDRESS: Final = 700
"""CUDA_ERROR_ILLEGAL_ADDRESS"""

_PTX: Final = b"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry tell(.param .u64 where)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [where];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 4711;
    st.global.u32 [%rd2], %r1;
    ret;
}

.visible .entry spin(.param .u64 cycles)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [cycles];
    mov.u64 %rd2, %clock64;
again:
    mov.u64 %rd3, %clock64;
    sub.s64 %rd4, %rd3, %rd2;
    setp.lt.s64 %p1, %rd4, %rd1;
    @%p1 bra again;
    ret;
}
"""

_NOWHERE: Final = 0x10
_CYCLES: Final = 200_000_000
"""Of one launch: some tenths of a second, so that no display driver ends it."""


class CudaError(Exception):
    """A call of the driver's library was refused.

    Attributes:
        code: The library's.
    """

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: error {code}")
        self.code = code


class Context:
    """The first GPU that the process sees, with the kernels loaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        device, count = ctypes.c_int(), ctypes.c_int()
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGetCount", ctypes.byref(count))
        self.devices = count.value
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        self.call("cuModuleLoadData", ctypes.byref(module), _PTX)
        self._module = module

    def call(self, name: str, *arguments: Any) -> None:
        """Make a call of the library.

        Raises:
            CudaError: It was refused.
        """
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise CudaError(name, code)

    def launch(self, kernel: bytes, argument: int) -> None:
        """Run a kernel with one thread and wait for its end."""
        function, value = ctypes.c_void_p(), ctypes.c_uint64(argument)
        self.call("cuModuleGetFunction", ctypes.byref(function), self._module, kernel)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(value), ctypes.c_void_p))
        sizes = (1, 1, 1, 1, 1, 1, 0)
        self.call("cuLaunchKernel", function, *sizes, None, parameters, None)
        self.call("cuCtxSynchronize")

    def allocate(self) -> int:
        """Give the address of some memory of the GPU."""
        where = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(where), ctypes.c_size_t(4096))
        return where.value

    def read(self, where: int) -> int:
        """Give the number at an address."""
        value = ctypes.c_uint32()
        size = ctypes.c_size_t(4)
        self.call("cuMemcpyDtoH_v2", ctypes.byref(value), ctypes.c_uint64(where), size)
        return value.value


def there() -> bool:
    """Whether this process can load the driver's library."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def probe() -> dict[str, Any]:
    """Let a kernel write a number."""
    context = Context()
    where = context.allocate()
    context.launch(b"tell", where)
    return {"devices": context.devices, "number": context.read(where)}


def busy(seconds: float) -> dict[str, Any]:
    """Keep the GPU busy, and say so when it is."""
    context = Context()
    until, launches = time.monotonic() + seconds, 0
    print(json.dumps({"busy": True}), flush=True)  # noqa: T201 - the parent waits for it
    while time.monotonic() < until:
        context.launch(b"spin", _CYCLES)
        launches += 1
    return {"launches": launches}


def illegal() -> dict[str, Any]:
    """Store to where no memory is; the context is dead afterwards."""
    context = Context()
    began = time.time()
    try:
        context.launch(b"tell", _NOWHERE)
    except CudaError as error:
        return {"error": error.code, "stored_at": began}
    return {"error": 0, "stored_at": began}


def main(what: str, seconds: str = "3") -> int:
    """Do it and tell."""
    acts = {"probe": probe, "busy": lambda: busy(float(seconds)), "illegal": illegal}
    try:
        told = acts[what]()
    except (CudaError, OSError) as error:
        told = {"failed": str(error)}
    print(json.dumps(told))  # noqa: T201 - a program's answer
    return 1 if "failed" in told else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
