"""Running the command, and what every test of it needs."""

import ctypes
import json
import os
import subprocess

import numpy as np
import pytest

COMMAND = os.environ["TANDEM_COMMAND"]
DEVICES = os.environ.get("TANDEM_TEST_DEVICES", "host").split()

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
# All that NumPy has; bfloat16 has tests of its own.
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]

each_device = pytest.mark.parametrize("device", DEVICES)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def run(*arguments, device=None, environment=None, **options):
    """The finished process; its output is bytes."""
    command = [COMMAND, *map(os.fspath, arguments)]
    if device is not None:
        command += ["--device", device]
    env = {name: value for name, value in os.environ.items() if name != "TANDEM_DEVICE"}
    env.update(environment or {})
    if "stdout" not in options:
        options["stdout"] = subprocess.PIPE
    return subprocess.run(command, env=env, stderr=subprocess.PIPE, timeout=120, check=False, **options)


def succeed(*arguments, **options):
    """What the command wrote to standard output; nothing may be on standard error."""
    done = run(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b"", done.stderr.decode()
    return done.stdout


def fail(*arguments, naming, saying="", **options):
    """The command must fail with one line that starts with what it is about, and write nothing else."""
    done = run(*arguments, **options)
    message = done.stderr.decode()
    assert done.returncode == 1, (done.returncode, message)
    assert message.count("\n") == 1 and message.endswith("\n"), message
    assert message.startswith(f"tandem: {naming}"), message
    assert message.count(str(naming)) == 1, message
    assert saying in message, message
    assert not done.stdout, done.stdout
    return message


def fail_usage(*arguments, saying="", **options):
    """The command must be refused with one line and a hint."""
    done = run(*arguments, **options)
    message = done.stderr.decode()
    assert done.returncode == 2, (done.returncode, message)
    first, hint, end = message.split("\n")
    assert first.startswith("tandem: ") and saying in first, message
    assert hint.startswith("Try 'tandem") and hint.endswith("--help'.") and end == "", message
    assert not done.stdout, done.stdout


def reaches(path, *arguments):
    """What info tells of each device."""
    listed = json.loads(succeed("info", path, "--json", *arguments))["devices"]
    for reach in listed:
        assert list(reach) == ["spec", "zero_copy", "residency"] and reach["residency"]
        assert reach["zero_copy"] in ("yes", "no", "driver decides")
    return {reach["spec"]: reach for reach in listed}


def full_spec(device):
    return device if ":" in device else device + ":0"


def without_privileges():
    """For preexec_fn: permissions on files hold for root too."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; without root there is nothing to drop


def contents(folder):
    """Every file under `folder` with its bytes."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file() and os.access(path, os.R_OK)}


def specials(dtype):
    """The values at which addition may go wrong."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, limits.max // 2, limits.max // 2 + 1, limits.max - 1, limits.max, limits.min, limits.min + 1,
                         limits.min // 2], dtype)
    real = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
    limits = np.finfo(real)
    tiny = limits.smallest_subnormal
    values = [0.0, tiny, 3 * tiny, limits.tiny - tiny, limits.tiny, limits.eps, 1.0, 1 + limits.eps, 1 / 3, limits.max / 2,
              limits.max, np.inf, np.nan]
    values = np.array([*values, *(-np.array(values, real))], real)
    if dtype.kind != "c":
        return values
    # Every value as a real part, beside some imaginary part.
    left, right = np.meshgrid(values[::2], values[1::2])
    return np.stack([left.ravel(), right.ravel()], axis=-1).copy().view(dtype).ravel()


def operands(dtype, count=3000, seed=7):
    """Two arrays: every pair of special values, then random bits."""
    dtype = np.dtype(dtype)
    special = specials(dtype)
    left, right = (side.ravel() for side in np.meshgrid(special, special))
    if left.size > 4000:
        keep = np.random.default_rng(seed).choice(left.size, 4000, replace=False)
        left, right = left[keep], right[keep]
    rng = np.random.default_rng(seed)
    noise = []
    for _ in range(2):
        bits = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
        noise.append((bits & 1).view(bool) if dtype.kind == "b" else bits.view(dtype))
    return np.concatenate([left, noise[0]]), np.concatenate([right, noise[1]])


def numpy_add(left, right):
    with np.errstate(all="ignore"):
        return left + right


def assert_same(found, expected):
    """Equal bit for bit, but for what is in a NaN."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind == "c":
        part = np.dtype(f"f{expected.dtype.itemsize // 2}")
        found, expected = (np.ascontiguousarray(side).reshape(-1).view(part) for side in (found, expected))
    if expected.dtype.kind == "f":
        found, expected = (np.ascontiguousarray(side) for side in (found, expected))
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(found), nan)
        bits = np.dtype(f"u{expected.dtype.itemsize}")
        found, expected = (np.where(nan, bits.type(0), side.view(bits)) for side in (found, expected))
    np.testing.assert_array_equal(found, expected)
