"""tandem devices: every backend, and what is in it or why nothing is."""

import json
import os

from support import DEVICES, fail, run, succeed

DEVICE_KEYS = {
    "spec": str, "index": int, "type": str, "name": str, "platform": str, "driver": str, "uuid": (str, type(None)),
    "memory_bytes": int, "max_window_bytes": int, "compute_units": int, "has_float64": bool, "shares_host_memory": bool,
}


def backends(**options):
    return {backend["name"]: backend for backend in json.loads(succeed("devices", "--json", **options))}


def test_json():
    listed = backends()
    assert list(listed) == ["cuda", "opencl", "host"]
    for name, backend in listed.items():
        assert list(backend) == ["name", "available", "reason", "devices"]
        assert backend["available"] == bool(backend["devices"])
        assert (backend["reason"] is None) == backend["available"]
        assert backend["available"] or len(backend["reason"]) > 3
        for index, device in enumerate(backend["devices"]):
            assert list(device) == list(DEVICE_KEYS)
            for key, kind in DEVICE_KEYS.items():
                assert isinstance(device[key], kind), key
            assert device["spec"] == f"{name}:{index}" and device["index"] == index
            assert device["type"] in ("gpu", "accelerator", "cpu") and device["name"]
            assert device["memory_bytes"] >= device["max_window_bytes"] > 0 and device["compute_units"] > 0
    assert listed["host"]["available"]
    for device in DEVICES:
        assert listed[device.split(":")[0]]["available"], listed[device.split(":")[0]]["reason"]


def test_for_a_person():
    text = succeed("devices").decode()
    for name, backend in backends().items():
        if backend["available"]:
            for device in backend["devices"]:
                assert device["spec"] in text and device["name"] in text
                assert f"{device['memory_bytes']:,} bytes" in text
        else:
            assert f"{name}: not available: {backend['reason']}\n" in text


def test_without_vendor_libraries(tmp_path):
    # A file of the right name that is no library stands for an installation that is broken.
    for name in ("libcuda.so.1", "libOpenCL.so.1"):
        (tmp_path / name).write_text("no library")
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "OCL_ICD_VENDORS": "/nonexistent"}
    listed = backends(environment=environment)
    for name, library in (("cuda", "libcuda.so.1"), ("opencl", "libOpenCL.so.1")):
        assert not listed[name]["available"]
        assert library in listed[name]["reason"] or "built with" in listed[name]["reason"]
    assert listed["host"]["available"]
    succeed("devices", environment=environment)


def test_without_opencl_drivers(tmp_path):
    # Some systems name drivers in OCL_ICD_FILENAMES besides.
    listed = backends(environment={"OCL_ICD_VENDORS": str(tmp_path / "none"), "OCL_ICD_FILENAMES": ""})
    assert not listed["opencl"]["available"] and listed["opencl"]["reason"]
    assert listed["host"]["available"]


def test_standard_output_that_fails():
    with open("/dev/full", "wb") as full:
        fail("devices", stdout=full, naming="standard output", saying="No space left")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        fail("devices", "--json", stdout=writer, naming="standard output", saying="Broken pipe")
    finally:
        os.close(writer)
    done = run("devices", preexec_fn=lambda: os.close(1), stdout=None)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
