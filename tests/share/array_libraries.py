"""CUDA IPC handles between tandem and CuPy and PyTorch, both ways, checked against NumPy.

array_libraries.py SHARE_PEER [--device cuda:0]

Needs a GPU and at least one of the libraries; else it says what is missing and ends with status 77. Each process has its time.
"""

import argparse
import ctypes
import importlib.util
import os
import signal
import subprocess
import threading

PROCESS_SECONDS, ALL_SECONDS = 120, 500
SKIPPED, COUNT = 77, 100_003
BEFORE = 1000  # elements in front of those that are shared


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def driver(name, *arguments):
    """A call of the driver's own, in the context that the library has made current."""
    result = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if result != 0:
        raise RuntimeError(f"{name}: CUresult {result}")


def start_of_allocation(address):
    base = ctypes.c_uint64()
    driver("cuMemGetAddressRange_v2", ctypes.byref(base), None, ctypes.c_uint64(address))
    return base.value


class View:
    """Device memory at an address, for whoever takes the CUDA array interface."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<i4", "data": (address, False), "version": 2}


class CuPy:
    def __init__(self, index):
        import cupy
        self.name = f"CuPy {cupy.__version__}"
        cupy.cuda.Device(index).use()
        runtime = cupy.cuda.runtime
        self.get_handle, self.close_handle = runtime.ipcGetMemHandle, runtime.ipcCloseMemHandle
        self.open_handle = lambda handle: runtime.ipcOpenMemHandle(handle, 1)  # cudaIpcMemLazyEnablePeerAccess
        self.arange = lambda count: cupy.arange(count, dtype="int32")
        self.address = lambda array: array.data.ptr
        self.view = lambda address, count: cupy.asarray(View(address, count))
        self.to_numpy = cupy.asnumpy
        self.synchronize = runtime.deviceSynchronize


class PyTorch:  # shares tensors by private calls alone: the handles are the driver's
    def __init__(self, index):
        import torch
        self.name = f"PyTorch {torch.__version__}"
        torch.cuda.set_device(index)
        self.arange = lambda count: torch.arange(count, dtype=torch.int32, device="cuda")
        self.address = lambda array: array.data_ptr()
        self.view = lambda address, count: torch.as_tensor(View(address, count), device="cuda")
        self.to_numpy = lambda array: array.cpu().numpy()
        self.synchronize = torch.cuda.synchronize

    @staticmethod
    def get_handle(address):
        handle = Handle()
        driver("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        return bytes(handle)

    @staticmethod
    def open_handle(handle):
        address = ctypes.c_uint64()
        driver("cuIpcOpenMemHandle_v2", ctypes.byref(address), Handle.from_buffer_copy(handle), ctypes.c_uint(1))
        return address.value

    @staticmethod
    def close_handle(address):
        driver("cuIpcCloseMemHandle", ctypes.c_uint64(address))


def library_to_tandem(numpy, library, peer, device):
    array = library.arange(BEFORE + COUNT) - BEFORE
    library.synchronize()
    address = library.address(array) + 4 * BEFORE
    base = start_of_allocation(address)
    command = [peer, "take-handle", str(os.getpid()), device, library.get_handle(base).hex(), str(address - base), str(COUNT)]
    done = subprocess.run(command, timeout=PROCESS_SECONDS, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = numpy.arange(-BEFORE, COUNT, dtype="int32") * numpy.repeat([1, 2], [BEFORE, COUNT])
    numpy.testing.assert_array_equal(library.to_numpy(array), expected)
    print(f"{library.name} to tandem: {COUNT} elements at byte {address - base} of an allocation, read and doubled in place")


def tandem_to_library(numpy, library, peer, device):
    process = subprocess.Popen([peer, "give-handle", "0", device, str(COUNT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(PROCESS_SECONDS, process.kill)
    try:
        timer.start()
        words = process.stdout.readline().split()
        assert len(words) == 2, process.communicate()[1]
        base = library.open_handle(bytes.fromhex(words[0]))
        array = library.view(base + int(words[1]), COUNT)
        numpy.testing.assert_array_equal(library.to_numpy(array), numpy.arange(COUNT, dtype="int32"))
        array *= 2
        library.synchronize()
        del array
        library.close_handle(base)
        _, errors = process.communicate("go on\n")
        assert process.returncode == 0, errors or "it was killed, for it took too long"
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    print(f"tandem to {library.name}: {COUNT} elements at byte {words[1]} of an allocation, read and doubled in place")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("--device", default="cuda:0")
    arguments = parser.parse_args()
    kinds = [kind for kind, module in ((CuPy, "cupy"), (PyTorch, "torch")) if importlib.util.find_spec(module)]
    reason = "" if kinds and importlib.util.find_spec("numpy") else "NumPy, and CuPy or PyTorch, are not installed"
    signal.alarm(ALL_SECONDS)
    try:
        driver("cuInit", 0)
    except (OSError, RuntimeError) as error:
        reason = reason or f"there is no CUDA device: {error}"
    if reason:
        print("skipped:", reason)
        raise SystemExit(SKIPPED)
    import numpy
    for kind in kinds:
        library = kind(int(arguments.device.partition(":")[2] or 0))
        library.arange(1)  # makes the context
        library_to_tandem(numpy, library, arguments.peer, arguments.device)
        tandem_to_library(numpy, library, arguments.peer, arguments.device)


if __name__ == "__main__":
    main()
