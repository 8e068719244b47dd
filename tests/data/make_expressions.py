"""Writes what NumPy makes of expressions: python3 make_expressions.py OUTFILE [device]

One JSON object: `promote` and `same_kind`, NumPy's tables for every pair of dtypes; `weak`, the types of arrays with Python's
numbers by NEP 50; `cases`, each an expression with its operands' bytes and the bytes that the outputs must have, in hexadecimal, and
by how many units in the last place they may differ. With `device`, the cases alone, and those that take few kernels.

Tolerances: The OpenCL C Specification 3.0, 7.4 "Relative Error as ULPs", full profile; results of float16 are computed in float32
and rounded, so they are next to the right one. Functions' values are computed in long double. Complex results may differ by so many
units of the larger component's; products not at all from those whose four products and two sums are rounded each. NumPy itself fuses
some of them where the processor can.
"""
import json
import sys
import warnings

import numpy as np

np.seterr(all="ignore")
warnings.simplefilter("ignore")

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool"] + INTEGERS + FLOATS + COMPLEX

# [float32, float64]; of min and max, zeros of either sign may come.
ULPS = {"min": (0.5, 0.5), "max": (0.5, 0.5), "/": (2.5, 0), "sqrt": (3, 0), "exp": (3, 3), "log": (3, 3), "sin": (4, 4), "cos": (4, 4), "tan": (5, 5), "tanh": (5, 5),
        "**": (16, 16), "hypot": (4, 4)}
COMPLEX_ULPS = {"+": 0, "-": 0, "*": 0, "/": 8, "abs": 5, "sqrt": 16, "exp": 16, "log": 16, "sin": 16, "cos": 16, "**": 64}


def values(dtype, count, seed):
    """Numbers of every size, with the special ones first."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        special = [0, 1, limits.max, limits.min, limits.max - 1, limits.min + 1, 2, 3, 7]
        if dtype.kind == "i":
            special += [-1, -2, -7]
        some = random.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
        some[count // 2:] = random.integers(0, 20, count - count // 2).astype(dtype)
        random.shuffle(special)
        some[:len(special)] = special
        return some
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        special = np.array([0.0, -0.0, 1, -1, 0.5, -2.5, np.inf, -np.inf, np.nan, limits.max, limits.min, limits.tiny, 7, -7, 3], dtype)
        random.shuffle(special)
        some = (random.standard_normal(count) * 10.0 ** random.integers(-3, 4, count)).astype(dtype)
        some[:len(special)] = special
        return some
    return (random.standard_normal(count) + 1j * random.standard_normal(count)).astype(dtype)


def operand(name, array):
    return {"name": name, "dtype": array.dtype.name, "hex": array.tobytes().hex()}


def ulps_for(symbol, dtype):
    if dtype.kind == "c":
        return COMPLEX_ULPS.get(symbol, 0)
    if dtype.kind != "f" or symbol not in ULPS:
        return 0
    if dtype.itemsize == 2 and symbol not in ("min", "max"):
        return 1
    return ULPS[symbol][0 if dtype.itemsize <= 4 else 1]


def output(name, symbol, array):
    result = operand(name, np.ascontiguousarray(array))
    result["ulps"] = ulps_for(symbol, array.dtype)
    return result


def wide(function, result_type, *arrays):
    """The function in long double, rounded once."""
    wider = np.clongdouble if result_type.kind == "c" else np.longdouble
    return function(*[a.astype(result_type).astype(wider) for a in arrays]).astype(result_type)


BINARY = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.remainder,
    "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "<<": np.left_shift, ">>": np.right_shift, "**": np.power,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}
UNARY = {"-": np.negative, "~": np.invert, "abs": np.absolute, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin,
         "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
         "real": np.real, "imag": np.imag, "conj": np.conjugate}


def text_of(symbol, arguments):
    if symbol in ("min", "max") or (symbol.isalpha() and len(arguments) == 1):
        return "%s(%s)" % (symbol, ", ".join(arguments))
    return symbol + arguments[0] if len(arguments) == 1 else "%s %s %s" % (arguments[0], symbol, arguments[1])


def applies(symbol, left, right=None):
    """Whether the library has it, which leaves out what NumPy has for complex numbers by their order, and bool's oddities."""
    types = [np.dtype(d) for d in (left, right) if d is not None]
    kinds = "".join(t.kind for t in types)
    if right is None:
        if symbol == "-":
            return "b" not in kinds
        if symbol == "~":
            return all(k in "biu" for k in kinds)
        if symbol in ("floor", "ceil", "trunc", "round"):
            return kinds == "f"  # this NumPy makes floats of integers
        if symbol in ("tan", "tanh"):
            return kinds != "c"
        if symbol == "conj":
            return kinds == "c"
        return True
    if symbol in ("<", "<=", ">", ">=", "min", "max", "//", "%"):
        if "c" in kinds:
            return False
    if symbol in ("&", "|", "^", "<<", ">>"):
        return all(k in "biu" for k in kinds) and np.promote_types(*types).kind in "biu"
    if symbol == "-":
        return kinds != "bb"
    return True


def binary(symbol, left, right):
    """The result as the library documents it."""
    promoted = np.promote_types(left.dtype, right.dtype)
    if symbol == "**" and promoted.kind in "fc":
        return wide(np.power, promoted, left, right)
    if symbol == "/" and promoted.kind == "c":
        return wide(np.true_divide, promoted, left, right)
    if symbol == "*" and promoted.kind == "c":
        return product(left.astype(promoted), right.astype(promoted))
    return BINARY[symbol](left, right)


def product(left, right):
    """Of complex numbers, from reals: the bits do not depend on what NumPy makes of products here."""
    result = np.empty(left.shape, left.dtype)
    result.real = left.real * right.real - left.imag * right.imag
    result.imag = left.real * right.imag + left.imag * right.real
    return result


def unary(symbol, value):
    if symbol == "sqrt" and value.dtype == np.float64:
        return np.sqrt(value)  # is rounded once
    if symbol in ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh"):
        return wide(UNARY[symbol], UNARY[symbol](value[:1]).dtype, value)
    if symbol == "abs" and value.dtype.kind == "c":
        return wide(UNARY[symbol], np.dtype("clongdouble"), value).astype(np.absolute(value[:1]).dtype)
    return UNARY[symbol](value)


def case(inputs, results):
    """`results` maps a name to the symbol, the text and the array."""
    text = "; ".join("%s = %s" % (name, expression) for name, (_, expression, _) in results.items())
    return {"text": text, "inputs": [operand(n, a) for n, a in inputs.items()],
            "outputs": [output(n, symbol, array) for n, (symbol, _, array) in results.items()]}


def binary_case(symbols, left, right, count):
    # Numbers that float64 tells apart, where NumPy compares in it.
    mixed = {left, right} == {"int64", "uint64"}
    a = values(left, count, 1)
    b = values(right, count, 2)
    if "c" in (a.dtype.kind, b.dtype.kind):  # what infinities give depends on the formula
        random = np.random.default_rng(14)
        a = random.standard_normal(count).astype(left) if a.dtype.kind == "f" else a
        b = random.standard_normal(count).astype(right) if b.dtype.kind == "f" else b
    if mixed:
        a, b = (a >> (12 if left == "int64" else np.uint64(12))), (b >> (12 if right == "int64" else np.uint64(12)))
        a, b = a.astype(left), b.astype(right)
    results = {}
    for i, symbol in enumerate(symbols):
        if not applies(symbol, left, right):
            continue
        results["r%d" % i] = (symbol, text_of(symbol, ["a", "b"]), binary(symbol, a, b))
    return case({"a": a, "b": b}, results) if results else None


def power_case(left, right, count):
    a = values(left, count, 3)
    b = values(right, count, 4)
    kind = np.promote_types(left, right).kind
    random = np.random.default_rng(5)
    if kind in "biu":
        if np.dtype(right).kind == "i":
            b = np.where(b < 0, 5, b).astype(right)
    elif kind == "f":  # away from overflow, where results of an integer's size are all rounding
        if np.dtype(left).kind == "f":
            a = random.uniform(0.1, 10, count).astype(left)
        else:
            a = random.integers(0, 2 if left == "bool" else 10, count).astype(left)
        if np.dtype(right).kind == "f":
            b = random.uniform(-3, 3, count).astype(right)
        else:
            b = random.integers(0, 2 if right == "bool" else 4, count).astype(right)
    else:
        if np.dtype(right).kind not in "fc":
            b = random.integers(0, 2 if right == "bool" else 4, count).astype(right)
        elif np.dtype(right).kind == "f":
            b = random.uniform(-3, 3, count).astype(right)
        if np.dtype(left).kind != "c":
            a = random.integers(1, 2 if left == "bool" else 10, count).astype(left)
    return case({"a": a, "b": b}, {"r": ("**", "a ** b", binary("**", a, b))})


def unary_case(symbols, dtype, count):
    a = values(dtype, count, 6)
    results = {}
    for i, symbol in enumerate(symbols):
        if applies(symbol, dtype):
            named = "hypot" if symbol == "abs" and np.dtype(dtype).kind == "c" else symbol
            results["r%d" % i] = (named, text_of(symbol, ["a"]), unary(symbol, a))
    return case({"a": a}, results) if results else None


def function_case(symbols, dtype, count):
    a = values(dtype, count, 7)
    if np.dtype(dtype).kind == "f":  # the last elements are large: reduced by multiples of pi
        a[15:] = np.random.default_rng(8).uniform(-80 if np.dtype(dtype).itemsize > 2 else -10, 10, count - 15).astype(dtype)
    results = {}
    for i, symbol in enumerate(symbols):
        if applies(symbol, dtype):
            results["r%d" % i] = (symbol, text_of(symbol, ["a"]), unary(symbol, a))
    return case({"a": a}, results) if results else None


def where_case(condition, left, right, count):
    c, a, b = values(condition, count, 9), values(left, count, 10), values(right, count, 11)
    return case({"c": c, "a": a, "b": b}, {"r": ("where", "where(c, a, b)", np.where(c.astype(bool), a, b))})


def cast_case(source, count):
    """To every type that NumPy's own conversion is defined for."""
    a = values(source, count, 12)
    if np.dtype(source).kind == "f":
        a = np.random.default_rng(13).uniform(0, 120, count).astype(source)
    cases = []
    results = {}
    for i, to in enumerate(DTYPES):
        if np.dtype(source).kind == "c" and np.dtype(to).kind in "biu":
            continue
        results["r%d" % i] = ("cast", "%s(a)" % to, a.astype(to))
        if len(results) == 9:
            cases.append(case({"a": a}, results))
            results = {}
    return cases + ([case({"a": a}, results)] if results else [])


def extremes(dtype):
    """Complex numbers of every two of the numbers that some step may not take: what is close to overflow, to underflow, special."""
    part = np.dtype(dtype).type(0).real.dtype
    limits = np.finfo(part)
    tiny, largest = float(limits.tiny), float(limits.max)
    fits = np.log(largest)  # the exponential's last
    parts = [0.0, -0.0, 1.0, -0.75, float(limits.smallest_subnormal), -tiny, tiny * 3, largest ** -0.75, -largest ** -0.5,
             largest ** 0.5 * 1.5, -largest ** 0.9, largest / 3, largest, -largest, fits + 0.5, -fits - 3, fits * 1.5, -fits / 2,
             np.inf, -np.inf, np.nan]
    parts = np.array(parts, part)
    result = np.empty((len(parts), len(parts)), dtype)
    result.real, result.imag = parts[:, None], parts[None, :]
    return result.ravel()


def extreme_function_case(dtype):
    a = extremes(dtype)
    results = {"r%d" % i: (s, text_of(s, ["a"]), wide(UNARY[s], np.dtype(dtype), a)) for i, s in enumerate(COMPLEX_FUNCTIONS)}
    results["r9"] = ("hypot", "abs(a)", unary("abs", a))
    return case({"a": a}, results)


def extreme_arithmetic_case(dtype):
    """Quotients as NumPy forms them, by the same steps: their overflow is part of the result."""
    a = extremes(dtype)
    b = np.random.default_rng(15).permutation(a)
    return case({"a": a, "b": b}, {"p": ("*", "a * b", product(a, b)), "q": ("/", "a / b", np.true_divide(a, b))})


def extreme_power_case(dtype):
    """Whole exponents by NumPy's products; others of finite numbers, where each unit of the exponential's argument costs one."""
    a = extremes(dtype)
    whole = np.repeat(np.array([0, 1, 2, 3, 4, -1, -2, 7], dtype), len(a))
    bases = np.tile(a, 8)
    made = case({"a": bases, "b": whole}, {"r": ("**", "a ** b", np.power(bases, whole))})
    a = a[np.isfinite(a.real) & np.isfinite(a.imag) & (a != 0)]  # of 0 NumPy's versions make different things
    parts = np.array([0.5, -0.25, 0.75 + 0.5j, 0.01j, -0.9], dtype)
    fractions = np.repeat(parts, len(a))
    bases = np.tile(a, len(parts))
    other = case({"a": bases, "b": fractions}, {"r": ("**", "a ** b", wide(np.power, np.dtype(dtype), bases, fractions))})
    other["outputs"][0]["ulps"] += 2 * float(np.log(np.finfo(dtype).max))
    return [made, other]


ARITHMETIC = ["+", "-", "*", "/", "//", "%", "min", "max"]
COMPARISONS = ["<", "<=", ">", ">=", "==", "!="]
BITS = ["&", "|", "^", "<<", ">>"]
SIMPLE = ["-", "~", "abs", "floor", "ceil", "trunc", "round"]
PARTS = ["real", "imag", "conj"]
FUNCTIONS = ["sqrt", "exp", "log", "sin", "cos", "tan", "tanh"]
COMPLEX_FUNCTIONS = FUNCTIONS[:5]


def device_cases():
    """Each is a kernel that a device compiles, which takes longest; the host has the rest."""
    cases = [binary_case(ARITHMETIC, dtype, dtype, 61) for dtype in DTYPES]
    cases += [binary_case(COMPARISONS, dtype, dtype, 61) for dtype in ("bool", "int8", "uint64", "float32", "complex64")]
    cases += [binary_case(BITS, dtype, dtype, 61) for dtype in ("bool", "int8", "uint16", "int32", "int64")]
    cases += [unary_case(SIMPLE, dtype, 61) for dtype in ("int16", "uint32", "float32", "float64")]
    cases.append(unary_case(SIMPLE + PARTS, "complex64", 61))
    cases += [power_case(dtype, dtype, 61) for dtype in ("int8", "uint64", "float32", "float64", "complex128")]
    cases += [function_case(FUNCTIONS, dtype, 61) for dtype in FLOATS + COMPLEX]
    for left, right in (("int8", "uint8"), ("uint64", "int64"), ("float32", "int32"), ("bool", "complex64")):
        cases.append(binary_case(ARITHMETIC, left, right, 61))
    cases.append(where_case("float32", "int32", "float32", 61))
    for source in ("int16", "float32", "complex64"):
        cases += cast_case(source, 61)
    for dtype in COMPLEX:
        cases += [extreme_function_case(dtype), extreme_arithmetic_case(dtype), *extreme_power_case(dtype)]
    return [c for c in cases if c]


def all_cases():
    cases = []
    for left in DTYPES:
        for right in DTYPES:
            for symbols in (ARITHMETIC, COMPARISONS, BITS):
                cases.append(binary_case(symbols, left, right, 31))
            cases.append(power_case(left, right, 31))
            cases.append(where_case("int32", left, right, 31))
        for symbols in (SIMPLE, PARTS):
            cases.append(unary_case(symbols, left, 31))
        cases.append(function_case(FUNCTIONS, left, 31) if np.dtype(left).kind in "fc" else unary_case(FUNCTIONS, left, 31))
        cases += cast_case(left, 31)
    return [c for c in cases if c]


def weak_table():
    np._set_promotion_state("weak")
    rows = []
    for dtype in DTYPES:
        array = np.ones(2, dtype)
        for number, text in ((1, "1"), (1.5, "1.5"), (1j, "1j"), (True, "true")):
            rows.append([dtype, text, (array + number).dtype.name, (array / number).dtype.name])
    np._set_promotion_state("legacy")
    return rows


def main():
    if sys.argv[2:] == ["device"]:
        written = {"cases": device_cases()}
    else:
        written = {
            "promote": [[a, b, np.promote_types(a, b).name] for a in DTYPES for b in DTYPES],
            "same_kind": [[a, b, bool(np.can_cast(a, b, "same_kind"))] for a in DTYPES for b in DTYPES],
            "weak": weak_table(),
            "cases": all_cases(),
        }
    with open(sys.argv[1], "w") as file:
        json.dump(written, file)


if __name__ == "__main__":
    main()
