"""Writes factors and products of matrices: python3 make_blas.py OUTDIR

Each line of cases.txt names one: NAME_a.npy and NAME_b.npy in the order of the file, NAME_product.npy as NumPy computes it in extended
precision, and NAME_size.npy, the product of the absolute values, which rounding errors are measured by. The line's second word is what is taken of
a: none, transpose or conjugate.
"""
import pathlib
import sys

import numpy as np

CASES = [
    # dtype, shape of op(a), shape of b, orders of a and b, what is taken of a
    ("f4", (61, 93), (93, 7), "CC", "none"),
    ("f4", (93, 61), (61, 93), "FC", "none"),
    ("f4", (7, 93), (93, 61), "CF", "transpose"),
    ("f8", (61, 61), (61, 93), "FF", "none"),
    ("c8", (7, 61), (61, 7), "CC", "conjugate"),
    ("c16", (61, 93), (93, 93), "CF", "transpose"),
]


def factor(random, dtype, shape, order):
    values = random.standard_normal(shape)
    if dtype.startswith("c"):
        values = values + 1j * random.standard_normal(shape)
    return np.asarray(values.astype(dtype), order=order)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(6)
    lines = []
    for dtype, a_shape, b_shape, orders, taken in CASES:
        name = "%s_%s_%s" % (dtype, orders.lower(), taken)
        a = factor(random, dtype, a_shape if taken == "none" else a_shape[::-1], orders[0])
        b = factor(random, dtype, b_shape, orders[1])
        wide = np.clongdouble if dtype.startswith("c") else np.longdouble
        left = {"none": a, "transpose": a.T, "conjugate": a.conj().T}[taken].astype(wide)
        product = (left @ b.astype(wide)).astype("c16" if dtype.startswith("c") else "f8")
        size = (np.abs(left) @ np.abs(b.astype(wide))).astype("f8")
        for part, array in (("a", a), ("b", b), ("product", product), ("size", size)):
            np.save(folder / ("%s_%s.npy" % (name, part)), array)
        lines.append("%s %s\n" % (name, taken))
    (folder / "cases.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
