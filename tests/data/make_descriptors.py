"""Writes share descriptors: python3 make_descriptors.py OUTDIR

One of each method and a few shapes, by the format's description: numbers in the machine's byte order, CRC-32 over everything with
the checksum itself as zero.
"""
import os
import struct
import sys
import zlib


def descriptor(method, dtype, shape, strides, size_bytes, offset_bytes=0, base_offset_bytes=0, kind=0, writable=1, uuid=None):
    body = struct.pack("=BBBBB", method, kind, dtype, writable, uuid is not None)
    body += (uuid or bytes(16)) + bytes(range(16))
    body += struct.pack("=iQIQQQ", 1, 0, 0, size_bytes, base_offset_bytes, offset_bytes)
    body += bytes(64)
    body += struct.pack("=B%dq%dq" % (len(shape), len(strides)), len(shape), *shape, *strides)
    head = b"TANDEMSH" + struct.pack("=II", 2, 20 + len(body))
    checksum = zlib.crc32(head + bytes(4) + body)
    return head + struct.pack("=I", checksum) + body


DEVICE, HANDLE, HOST = 0, 1, 2
UINT8, FLOAT32 = 5, 11
SAMPLES = {
    "page": descriptor(HOST, UINT8, [4096], [1], 4096),
    "read_only": descriptor(HOST, FLOAT32, [10, 10], [40, 4], 500, 100, writable=0),
    "reversed": descriptor(HOST, FLOAT32, [16], [-4], 64, 60),
    "scalar": descriptor(HOST, FLOAT32, [], [], 4),
    "empty": descriptor(HOST, FLOAT32, [3, 0], [0, 4], 0),
    "device": descriptor(DEVICE, FLOAT32, [100], [4], 400, uuid=bytes(range(100, 116))),
    "handle": descriptor(HANDLE, FLOAT32, [100], [4], 400, base_offset_bytes=512),
}

if __name__ == "__main__":
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, data in SAMPLES.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
