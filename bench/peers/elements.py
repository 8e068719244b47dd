"""The files that are measured: float32 of which element i is i % 4093, so that sums and doubles of them are exact.

Written without NumPy, which is one of the peers."""

import array
import ctypes
import json
import mmap
import os
import sys

PERIOD = 4093
ALIGNMENT = 64


def write_values(file, count):
    block = array.array("f", range(PERIOD))
    if sys.byteorder == "big":
        block.byteswap()
    data = block.tobytes() * 256
    left = 4 * count
    while left > 0:
        file.write(data[:left])
        left -= len(data)


def write_npy(path, count):
    """Where the elements begin."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % count
    text += " " * (-(len(text) + 11) % ALIGNMENT) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
        offset = file.tell()
        write_values(file, count)
    return offset


def write_safetensors(path, count):
    text = json.dumps({"elements": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}})
    text += " " * (-(len(text) + 8) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text.encode())
        write_values(file, count)


def cached_bytes(path):
    """How many of the file's bytes are in the page cache, in whole pages."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    size = os.path.getsize(path)
    pages = -(-size // mmap.PAGESIZE)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap", path)
        told = ctypes.create_string_buffer(pages)
        failed = libc.mincore(address, size, told) != 0
        libc.munmap(address, size)
        if failed:
            raise OSError(ctypes.get_errno(), "mincore", path)
    finally:
        os.close(descriptor)
    return min(size, mmap.PAGESIZE * sum(byte & 1 for byte in told.raw[:pages]))


def make_warm(path):
    """Reads the file until all of it is in the page cache; else the reason why there can be no figure, or None."""
    size = os.path.getsize(path)
    for _ in range(3):
        cached = cached_bytes(path)
        if cached == size:
            return None
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass
    return f"not warm: {cached_bytes(path)} of {size} bytes cached"
