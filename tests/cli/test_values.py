"""Every dtype, both operations, every device: the same bits as NumPy's."""

from fractions import Fraction

import numpy as np
import pytest

from support import assert_same, each_device, each_dtype, numpy_add, operands, succeed


@each_device
@each_dtype
def test_add(tmp_path, device, dtype):
    left, right = operands(dtype)
    np.save(tmp_path / "a.npy", left)
    np.save(tmp_path / "b.npy", right)
    succeed("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), numpy_add(left, right))


@each_device
@each_dtype
def test_double(tmp_path, device, dtype):
    values, _ = operands(dtype)
    np.save(tmp_path / "a.npy", values)
    succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), numpy_add(values, values))


@each_device
@each_dtype
def test_big_endian(tmp_path, device, dtype):
    left, right = operands(dtype)
    np.save(tmp_path / "a.npy", left.astype(left.dtype.newbyteorder(">")))
    np.save(tmp_path / "b.npy", right)
    succeed("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), numpy_add(left, right))


@each_device
def test_bool_bytes_other_than_0_and_1_count_as_true(tmp_path, device):
    bits = np.arange(256, dtype=np.uint8)
    np.save(tmp_path / "a.npy", bits.view(bool))
    np.save(tmp_path / "b.npy", np.zeros(256, bool))
    expected = (bits != 0).tobytes()
    succeed("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "out.npy", device=device)
    assert np.load(tmp_path / "out.npy").tobytes() == expected
    succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", device=device)
    assert np.load(tmp_path / "out.npy").tobytes() == expected


def bfloat16_value(bits):
    """None for NaN, an infinity as a float, else the exact number."""
    sign = -1 if bits & 0x8000 else 1
    exponent, fraction = bits >> 7 & 0xFF, bits & 0x7F
    if exponent == 0xFF:
        return None if fraction else sign * float("inf")
    significand = fraction if exponent == 0 else fraction | 0x80
    return sign * significand * Fraction(2) ** (max(exponent, 1) - 127 - 7)


def bfloat16_bits(value):
    """The nearest bfloat16, ties to even, of a number that is not zero."""
    sign = 0x8000 if value < 0 else 0
    magnitude = abs(value)
    exponent = max(-126, magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 1)
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    significand = round(magnitude / Fraction(2) ** (exponent - 7))  # Python rounds to even
    # Bits are in the order of values, so a carry out of the fraction is right by itself, up to infinity.
    bits = significand if significand < 0x80 else ((exponent + 127) << 7) + significand - 0x80
    return sign | min(bits, 0x7F80)


def bfloat16_add(left, right):
    a, b = bfloat16_value(left), bfloat16_value(right)
    if a is None or b is None:
        return None
    if isinstance(a, float) or isinstance(b, float):
        infinities = {value for value in (a, b) if isinstance(value, float)}
        return None if len(infinities) == 2 else 0x7F80 if infinities == {float("inf")} else 0xFF80
    if a + b == 0:
        return left & right & 0x8000 if a == 0 else 0
    return bfloat16_bits(a + b)


def bfloat16_operands():
    special = [0, 1, 2, 0x7F, 0x80, 0x81, 0x3F80, 0x3F81, 0x3C00, 0x4300, 0x4380, 0x7F00, 0x7F7F, 0x7F80, 0x7FC0]
    special = np.array([*special, *(bits | 0x8000 for bits in special)], np.uint16)
    left, right = (side.ravel() for side in np.meshgrid(special, special))
    rng = np.random.default_rng(3)
    near = rng.integers(0x3C00, 0x4400, (2, 2000), dtype=np.uint16) | rng.integers(0, 2, (2, 2000), dtype=np.uint16) << 15
    anything = rng.integers(0, 65536, (2, 2000), dtype=np.uint16)
    return np.concatenate([left, near[0], anything[0]]), np.concatenate([right, near[1], anything[1]])


def assert_bfloat16(path, left, right):
    found = np.load(path)
    assert found.dtype == np.dtype("V2") and found.shape == left.shape
    found = found.view(np.uint16)
    for index, (a, b) in enumerate(zip(left.tolist(), right.tolist())):
        expected = bfloat16_add(a, b)
        if expected is None:
            assert bfloat16_value(int(found[index])) is None, (hex(a), hex(b), hex(found[index]))
        else:
            assert found[index] == expected, (hex(a), hex(b), hex(found[index]), hex(expected))


@each_device
def test_bfloat16(tmp_path, device):
    left, right = bfloat16_operands()
    np.save(tmp_path / "a.npy", left.view("V2"))
    np.save(tmp_path / "b.npy", right.view("V2"))
    succeed("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "out.npy", "--dtype", "bfloat16", device=device)
    assert_bfloat16(tmp_path / "out.npy", left, right)
    succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", "--dtype", "bf16", device=device)
    assert_bfloat16(tmp_path / "out.npy", left, left)


@each_device
def test_a_million_and_one_elements(tmp_path, device):
    values = np.random.default_rng(5).standard_normal(1_000_001).astype("f4")
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "b.npy", values[::-1].copy())
    succeed("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), values + values[::-1])


@pytest.mark.parametrize("name", ["float32", "f32", "f4", "<f4", "=f4"])
def test_names_of_dtypes(tmp_path, name):
    np.arange(5, dtype="f4").tofile(tmp_path / "a.raw")
    succeed("double", tmp_path / "a.raw", "-o", tmp_path / "out.npy", "--dtype", name, device="host")
    assert_same(np.load(tmp_path / "out.npy"), 2 * np.arange(5, dtype="f4"))
