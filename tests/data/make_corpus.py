"""Writes the .npy corpus: python3 make_corpus.py OUTDIR

Good files and bad ones of every kind that a reader meets, and manifest.json with what each must be read as. Where NumPy reads a
file as the library must, the expectations are NumPy's own; STEM.values.bin then holds the values in C order and in this machine's
byte order.
"""
import ast
import io
import json
import os
import struct
import sys
import warnings

import numpy as np
from numpy.lib import format as npy_format

MAGIC = b"\x93NUMPY"
ENCODINGS = {(1, 0): "latin1", (2, 0): "latin1", (3, 0): "utf8"}
LIBRARY_NAMES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                 "float64", "complex64", "complex128"}


def wrap(header, version=(1, 0), length=None, align=1):
    """The bytes of a header with its prologue; `align` pads the data's offset, `length` overrides the length field."""
    text = header if isinstance(header, bytes) else header.encode(ENCODINGS.get(version, "latin1"))
    prologue = 10 if version[0] == 1 else 12
    if align > 1:
        text = text.rstrip(b"\n")
        text += b" " * (-(prologue + len(text) + 1) % align) + b"\n"
    length = len(text) if length is None else length
    return MAGIC + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", length) + text


def header_text(descr="'<f4'", order="False", shape="(3,)"):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)


def describe(dtype):
    """The item type as the library describes it, sub-arrays taken apart."""
    subarray, base = [], dtype
    while base.subdtype is not None:
        subarray += list(base.subdtype[1])
        base = base.subdtype[0]
    described = {"dtype": None, "swapped": False, "item_bytes": dtype.itemsize, "unit": "", "subarray": subarray, "fields": []}
    if base.names is not None:
        for name in base.names:
            field = describe(base.fields[name][0])
            title = base.fields[name][2] if len(base.fields[name]) > 2 else None
            field.update(name=name, offset=base.fields[name][1], title=title or "")
            described["fields"].append(field)
        return described
    described["swapped"] = base.str[0] == (">" if sys.byteorder == "little" else "<")
    if base.name in LIBRARY_NAMES:
        described["dtype"] = base.name
    elif base.kind in "mM":
        unit, count = np.datetime_data(base)
        described["dtype"] = "int64"
        described["unit"] = "" if unit == "generic" else (unit if count == 1 else "%d%s" % (count, unit))
    return described


def descr_in(text):
    """What the file writes for 'descr': the string, or the source of anything else."""
    text = text.strip()
    tree = ast.parse(text.replace("L", " ") if "L," in text else text, mode="eval").body
    for key, value in zip(tree.keys, tree.values):
        if key.value == "descr":
            return value.value if isinstance(value, ast.Constant) else ast.get_source_segment(text, value)
    raise KeyError("descr")


class Corpus:
    def __init__(self, folder):
        self.folder = folder
        self.entries = []

    def write(self, name, content):
        with open(os.path.join(self.folder, name), "wb") as out:
            out.write(content)

    def bad(self, name, content, contains):
        self.write(name + ".npy", content)
        self.entries.append({"name": name + ".npy", "expect": "error", "contains": contains})

    def bad_header(self, name, text, contains, version=(1, 0)):
        self.bad(name, wrap(text, version) + bytes(4096), contains)

    def good(self, name, content, expected=None):
        """`content` must be what NumPy reads, unless `expected` says what it is."""
        entry = {"name": name + ".npy", "expect": "ok"}
        start = io.BytesIO(content)
        version = npy_format.read_magic(start)
        shape, fortran_order, dtype = expected or npy_format._read_array_header(start, version, 1 << 20)
        prologue = 10 if version[0] == 1 else 12
        data_offset = prologue + int.from_bytes(content[8:prologue], "little")
        nbytes = dtype.itemsize
        for extent in shape:
            nbytes *= extent
        entry.update(describe(dtype), descr=descr_in(content[prologue:data_offset].decode(ENCODINGS[version])),
                     version=list(version), shape=list(shape), fortran_order=fortran_order, data_offset=data_offset, nbytes=nbytes,
                     trailing_bytes=len(content) - data_offset - nbytes, values=None)
        if entry["dtype"] is not None and expected is None:
            entry["values"] = name + ".values.bin"
            self.write(entry["values"], self.values(content, data_offset, nbytes, shape, fortran_order, dtype))
        self.write(name + ".npy", content)
        self.entries.append(entry)

    @staticmethod
    def values(content, data_offset, nbytes, shape, fortran_order, dtype):
        flat = np.frombuffer(content[data_offset:data_offset + nbytes] if nbytes else b"", dtype=dtype)
        if not nbytes:
            return b""
        count = int(np.prod(shape, dtype=np.int64))
        base = dtype.base
        array = flat.reshape((count,) + dtype.shape)
        if fortran_order:
            array = array.reshape(tuple(shape[::-1]) + dtype.shape)
            array = array.transpose(tuple(range(len(shape)))[::-1] + tuple(range(len(shape), array.ndim)))
        array = np.ascontiguousarray(array)
        if base.kind == "b":
            return (array.view(np.uint8) != 0).astype(np.uint8).tobytes()
        return array.astype(array.dtype.newbyteorder("=")).tobytes()

    def saved(self, name, array, version=None):
        out = io.BytesIO()
        npy_format.write_array(out, array, version=version, allow_pickle=False)
        self.good(name, out.getvalue())
        self.entries[-1]["saved_by_numpy"] = version is None

    def by_hand(self, name, text, data=bytes(range(256)) * 4, version=(1, 0), align=1):
        """A header by hand; the data is cut to what NumPy takes it for."""
        head = wrap(text, version, align=align)
        shape, _, dtype = npy_format._read_array_header(io.BytesIO(head[8:]), version, 1 << 20)
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        self.good(name, head + (data * (size // len(data) + 1))[:size])


def sample(dtype, shape):
    """Values that differ in every byte, among them infinities and extremes."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        return (np.arange(count) % 3 == 0).reshape(shape)
    if dtype.kind in "fc":
        values = (np.arange(count) - count / 2) * 1.37e2
        values = values + 1j * values[::-1] if dtype.kind == "c" else values
        array = values.astype(dtype)
        if count > 4:
            array[:3] = [np.inf, -np.inf, -0.0]
        return array.reshape(shape)
    noise = (np.arange(count * dtype.itemsize, dtype=np.uint64) * 167 + 13) % 251
    return noise.astype(np.uint8).view(dtype).reshape(shape)


def add_arrays(corpus):
    for order in "<>":
        for code in ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]:
            name = "%s_%s" % ("little" if order == "<" else "big", code)
            corpus.saved(name, sample(code, (3, 5)).astype(order + code))
            corpus.saved(name + "_fortran", np.asfortranarray(sample(code, (3, 5)).astype(order + code)))
    for code in ["<f4", ">i2", "|b1", "<c16"]:
        stem = code[1:] + ("_big" if code[0] == ">" else "")
        corpus.saved(stem + "_0d", sample(code, (1,)).astype(code).reshape(()))
        for shape in [(0,), (3, 0, 2), (0, 0), (1,), (7,), (2, 3, 4), (1, 1, 1, 1)]:
            corpus.saved("%s_%s" % (stem, "x".join(map(str, shape))), sample(code, shape).astype(code))
    corpus.saved("fortran_3d", np.asfortranarray(sample("<i4", (4, 3, 2))))
    corpus.saved("32_dimensions", np.ones((1,) * 31 + (2,), "<i2"))
    for version in [(1, 0), (2, 0), (3, 0)]:
        corpus.saved("version_%d" % version[0], sample("<f4", (4, 4)), version)
    for code in ["<M8[ns]", ">M8[ns]", "<m8[D]", "<M8[25s]", "<M8", ">m8", "<m8[7us]", "<M8[as]", "<M8[Y]"]:
        name = "time_%s" % code.translate({ord("<"): "le_", ord(">"): "be_", ord("["): "_", ord("]"): ""})
        array = np.array([0, 1, -5, np.iinfo(np.int64).min, 2**40], "<i8").astype(code[0] + "i8").view(code)
        corpus.saved(name, array)
    for code in ["S5", "<U3", ">U3", "V4", "S1", "V16"]:
        name = "flexible_" + code.replace("<", "le_").replace(">", "be_")
        array = np.frombuffer(bytes(range(1, 121))[:np.dtype(code).itemsize * 3], dtype="V%d" % np.dtype(code).itemsize)
        corpus.good(name, wrap(header_text(repr(code if code[0] in "<>" else "|" + code)), align=64) + array.tobytes())
    for code in ["|S0", "|V0", "<U0", ">U0", "S", "U", "V"]:
        corpus.by_hand("zero_width_%s" % code.strip("|").replace("<", "le_").replace(">", "be_"), header_text(repr(code)))
    bfloat16 = sample("<u2", (6,)).view("V2")
    corpus.saved("bfloat16", bfloat16)
    corpus.by_hand("bfloat16_ordered", header_text("'<V2'", shape="(6,)"), align=64)
    corpus.by_hand("float8", header_text("'|V1'", shape="(16,)"), align=64)
    corpus.by_hand("bool_bytes", header_text("'|b1'", shape="(6,)"), data=bytes([0, 1, 2, 128, 255, 0]), align=64)


def add_structures(corpus):
    position = [("x", "<f4"), ("y", ">f8")]
    types = {
        "plain": np.dtype([("a", "<i4"), ("b", "<f8")]),
        "one_field": np.dtype([("a", "<f4")]),
        "padded": np.dtype([("a", "i1"), ("b", "<f8"), ("c", "<i2")], align=True),
        "gaps": np.dtype({"names": ["a", "b"], "formats": ["<i2", "<f4"], "offsets": [2, 12], "itemsize": 20}),
        "only_padding": np.dtype({"names": [], "formats": [], "itemsize": 8}),
        "no_fields": np.dtype([]),
        "titles": np.dtype([(("Title of a", "a"), "<f4"), (("b title", "b"), ">i2")]),
        "nested": np.dtype([("id", "<u2"), ("position", position), ("tag", "S3")]),
        "nested_padded": np.dtype([("a", "u1"), ("in", np.dtype([("p", "u1"), ("q", "<c8")], align=True))], align=True),
        "subarrays": np.dtype([("m", "<f4", (2, 3)), ("v", ">i2", (4,)), ("s", "S2", (2,)), ("one", "<i4", (1,))]),
        "nested_subarray": np.dtype([("p", position, (2,)), ("k", "<i8")]),
        "subarray_of_subarray": np.dtype([("m", np.dtype(("<i2", (2,))), (3,))]),
        "mixed": np.dtype([("flag", "?"), ("when", "<M8[25s]"), ("for", ">m8[ns]"), ("name", "<U2"), ("raw", "V3"),
                           ("none", "S0")]),
        "dotted_names": np.dtype([("a", [("b", "<f4")]), ("a.b", "<f8")]),
        "odd_names": np.dtype([("with space", "<f4"), ("quote'", "<f4"), ("line\nbreak", "<f4"), ("caf\xe9", "<f4")]),
        "unicode_names": np.dtype([("\u4e2d\u6587", "<f4"), ("\U0001f600", ">f4")]),
        "many_fields": np.dtype([("field_%d" % i, "<f4") for i in range(3000)]),
    }
    for name, dtype in types.items():
        data = (np.arange(dtype.itemsize * 3, dtype=np.uint64) * 167 % 251).astype(np.uint8).tobytes()
        array = np.frombuffer(data, dtype, 3) if dtype.itemsize else np.zeros(3, dtype)
        corpus.saved("structure_" + name, array)
    deep = "'<f4'"
    for i in range(14):
        deep = "[('f%d', %s)]" % (i, deep)
    corpus.by_hand("structure_deep", header_text(deep))
    by_hand = {
        "lists_for_pairs": "[['x', '<f4'], ['y', '>i2', [2]]]",
        "title_none": "[((None, 'x'), '<f4')]",
        "no_name": "[('', '<f4')]",
        "pad_subarray": "[('a', '<i2'), ('', '<f4', (2,)), ('b', '<i2')]",
        "pad_unsized": "[('', 'V'), ('a', '<i2')]",
        "void_with_name": "[('pad', '|V4'), ('a', '<i2')]",
        "shape_number": "[('x', '<f4', 3), ('y', '<f4', 1), ('z', '<f4', ())]",
        "shape_zero": "[('x', '<f4', (0,)), ('y', '<f4')]",
        "text_width": "[('x', 'S', 5), ('y', 'U', 2)]",
        "escaped_names": r"[('\x41\u4e2d', '<f4'), ('tab\t', '<f4'), ('\d\101', '<f4')]",
    }
    for name, descr in by_hand.items():
        corpus.by_hand("structure_" + name, header_text(descr))
    corpus.by_hand("subarray", header_text("('<f4', (2, 3))", shape="(2,)"), align=64)
    corpus.by_hand("subarray_big_fortran", header_text("('>i2', (3,))", order="True", shape="(2, 2)"), align=64)
    corpus.by_hand("subarray_one", header_text("('<f4', 1)"))
    corpus.by_hand("subarray_text_width", header_text("('S', 5)"))
    corpus.by_hand("subarray_of_structures", header_text("([('x', '<f4'), ('y', '<i2')], (2,))"))
    corpus.by_hand("names_latin1", header_text("[('caf\xe9', '<f4')]"), version=(1, 0))
    corpus.by_hand("names_latin1_version_2", header_text("[('\xff\xfe', '<f4')]"), version=(2, 0))
    corpus.by_hand("names_utf8", header_text("[('caf\xe9\u4e2d', '<f4')]"), version=(3, 0))


def add_writings(corpus):
    """Headers that mean the same and look different."""
    texts = {
        "no_newline": header_text(),
        "no_trailing_comma": "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}\n",
        "key_order": "{'shape': (3,), 'descr': '<f4', 'fortran_order': False}\n",
        "double_quotes": '{"descr": "<f4", "fortran_order": False, "shape": (3,)}\n',
        "python2_unicode": "{u'descr': u'<f4', u'fortran_order': False, u'shape': (3,)}\n",
        "raw_and_triple": "{r'descr': '''<f4''', \"\"\"shape\"\"\": (3,), 'fortran_order': False}\n",
        "joined_strings": "{'des' 'cr': '<' \"f4\", 'shape': (3,), 'fortran_order': False}\n",
        "tight": "{'descr':'<f4','fortran_order':False,'shape':(3,)}",
        "spread": "{ 'descr' :\n '<f4'\n,\t'fortran_order'\r\n: False ,\f'shape': (\n3 ,\n) ,\n}\n\n",
        "leading_space": "  \t{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}\n",
        "in_parentheses": "({'descr': ('<f4'), 'fortran_order': (False), 'shape': ((3,))})\n",
        "joined_line": "{'descr': \\\n'<f4', 'fortran_order': False, 'shape': (3,)}\n",
        "escapes": r"{'\x64escr': '<\1464', 'fortran_order': False, 'shape': (3,)}" + "\n",
        "signed_shape": header_text(shape="(+3, -0, 00)"),
        "shape_no_spaces": header_text(shape="(2,3)"),
    }
    for name, text in texts.items():
        corpus.by_hand("writing_" + name, text)
    for version in [(1, 0), (2, 0)]:
        corpus.by_hand("python2_long_%d" % version[0], header_text(shape="(2L, 3L)"), version=version)
    corpus.by_hand("python2_long_subarray", header_text("[('x', '<f4', (2L,))]", shape="(2L,)"))
    codes = ["f4", "=f4", "b1", "<b1", ">b1", "=b1", "?", "i1", ">i1", "<u1", "B", "h", ">h", "<d", "F", "q", "float32", "int64",
             "bool",
             "complex64", "half", "double", "M8[ns]", "=M8[1s]", "datetime64[us]", "<timedelta64[h]", "M8[generic]", "a4", ">S3",
             "|U2"]
    names = str.maketrans({"<": "le_", ">": "be_", "=": "native_", "|": "none_", "[": "_", "]": "", "?": "question"})
    for code in codes:
        # Capitals are told apart from small letters on any filesystem.
        stem = "".join("cap_" + c.lower() if c.isupper() else c for c in code).translate(names)
        corpus.by_hand("code_" + stem, header_text(repr(code)))
    for align, name in [(16, "offset_16"), (32, "offset_32"), (64, "offset_64"), (4096, "offset_page")]:
        corpus.by_hand(name, header_text("'<f8'", shape="(5,)") + "\n", align=align)
    for extra in range(1, 8):
        corpus.by_hand("offset_odd_%d" % extra, header_text("'>f8'", shape="(5,)") + " " * extra + "\n")
    corpus.good("trailing", wrap(header_text()) + bytes(range(12)) + b"and more")
    corpus.good("trailing_after_empty", wrap(header_text(shape="(0,)")) + b"and more")
    dimensions = (1,) * 40 + (2,)
    corpus.good("41_dimensions", wrap(header_text("'|u1'", shape=str(dimensions))) + b"ab", (dimensions, False, np.dtype("u1")))
    corpus.good("64_dimensions", wrap(header_text("'|u1'", shape=str((1,) * 64))) + b"a", ((1,) * 64, False, np.dtype("u1")))


def add_bad_prologues(corpus):
    good = wrap(header_text()) + bytes(12)
    corpus.bad("bad_empty", b"", "empty file")
    for size in [1, 5, 6, 7, 8, 9]:
        corpus.bad("bad_cut_at_%d" % size, good[:size], "10 bytes")
    corpus.bad("bad_cut_at_10", good[:10], "header of")
    corpus.bad("bad_cut_at_11_version_2", wrap(header_text(), (2, 0))[:11], "12 bytes")
    corpus.bad("bad_cut_header", good[:50], "40 found")
    for major, minor in [(0, 0), (1, 1), (2, 1), (4, 0), (255, 255)]:
        corpus.bad("bad_version_%d_%d" % (major, minor), MAGIC + bytes([major, minor]) + good[8:], "%d.%d found" % (major, minor))
    corpus.bad("bad_length_beyond", wrap(header_text(), length=60000), "header of 60000 bytes needed")
    corpus.bad("bad_length_4g", wrap(header_text(), (2, 0), length=2**32 - 1), "4294967295")
    corpus.bad("bad_length_over_cap", wrap(header_text(), (3, 0), length=2**20 + 1), "1048577")
    corpus.bad("bad_length_zero", wrap("", length=0) + good[10:], "offset 10")
    safetensors = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    others = {"zip": (b"PK\x03\x04" + bytes(26), ".npz"), "zip_empty": (b"PK\x05\x06" + bytes(18), ".npz"),
              "gzip": (b"\x1f\x8b\x08" + bytes(20), "gzip"), "pickle": (b"\x80\x04\x95" + bytes(20), "pickle"),
              "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5"),
              "safetensors": (struct.pack("<Q", len(safetensors)) + safetensors + bytes(4), "safetensors"),
              "text": (b"1.0, 2.0, 3.0\n", "'1.0, 2'"), "binary": (b"\0\x01\xff\n" + bytes(20), "\\xff\\n"),
              "magic_wrong_case": (b"\x93numpy\1\0" + good[8:], "\\x93NUMPY")}
    for name, (content, contains) in others.items():
        corpus.bad("bad_kind_" + name, content, contains)


def add_bad_dictionaries(corpus):
    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"
    texts = {
        "empty": ("", "end"), "spaces": ("    \n", "end"), "no_keys": ("{}", "'descr'"), "number": ("3", "dictionary"),
        "list": ("[1, 2]", "dictionary"), "string": ("'descr'", "dictionary"), "set": ("{1, 2}", "':'"),
        "tuple_of_one": (good + ",", "after the dictionary"), "text_after": (good + " x", "after the dictionary"),
        "second": (good + "\n{}", "after the dictionary"), "semicolon": (good + ";", "after the dictionary"),
        "missing_descr": ("{'fortran_order': False, 'shape': (3,)}", "no 'descr'"),
        "missing_order": ("{'descr': '<f4', 'shape': (3,)}", "no 'fortran_order'"),
        "missing_shape": ("{'descr': '<f4', 'fortran_order': False}", "no 'shape'"),
        "unknown_key": (good[:-1] + ", 'extra': 1}", "'extra'"), "key_number": (good[:-1] + ", 3: 1}", "number 3"),
        "key_bytes": (good.replace("'descr'", "b'descr'"), "prefix 'b'"), "key_case": (good.replace("descr", "Descr"), "'Descr'"),
        "repeated": (good[:-1] + ", 'descr': '<f8'}", "'descr' found again"),
        "call": (header_text(shape="tuple([3])"), "a call of 'tuple'"), "name": (header_text(order="true"), "name 'true'"),
        "operator": (header_text(shape="(1+2,)"), "'+'"), "power": (header_text(shape="(9**9,)"), "'*'"),
        "unpack": ("{**{}, " + good[1:], "'*'"), "comment": (good[:-1] + " # why\n}", "a comment"),
        "comment_after": (good + " # why", "a comment"), "nul": (good[:-1] + "\0}", "NUL"), "nul_after": (good + "\0\0", "NUL"),
        "nul_in_string": (good.replace("<f4", "<f4\0"), "NUL"), "ellipsis": (header_text(shape="..."), "shape"),
        "unclosed": (good[:-1], "header's end"), "unclosed_string": ("{'descr': '<f4", "closing quote"),
        "line_in_string": (good.replace("<f4", "<\nf4"), "end of the line"), "double_comma": (good[:-1] + ",,}", "','"),
        "leading_comma": ("{," + good[1:], "','"), "no_colon": (good.replace("'descr':", "'descr' "), "':'"),
        "no_comma": (good.replace("False,", "False"), "',' or '}'"), "wrong_bracket": (header_text(shape="(3,]"), "']'"),
        "f_string": (good.replace("'<f4'", "f'<f4'"), "prefix 'f'"), "bad_escape": (good.replace("<f4", "\\x4"), "escape"),
        "surrogate": (good.replace("<f4", "\\ud800"), "escape"), "named_escape": (good.replace("<f4", "\\N{DIGIT ONE}"), "\\N"),
        "deep_lists": (header_text("[" * 5000), "levels of nesting"), "deep_groups": (header_text("(" * 5000),
        "levels of nesting"),
        "deep_dictionaries": ("{'a':" * 5000, "levels of nesting"), "not_break_space": (header_text(shape="(3,\xa0)"), "\\xa0"),
        "vertical_tab": (header_text(shape="(3,\x0b)"), "\\x0b"), "control_bytes": ("\x1b[31m\x07", "\\x1b"),
    }
    for name, (text, contains) in texts.items():
        corpus.bad_header("bad_dict_" + name, text, contains)
    for name, order in [("zero", "0"), ("one", "1"), ("none", "None"), ("string", "'False'"), ("tuple", "(False,)"),
    ("float", "0.0")]:
        corpus.bad_header("bad_order_" + name, header_text(order=order), "True or False")
    corpus.bad_header("bad_utf8", header_text("[('caf\xe9', '<f4')]").encode("latin1"), "UTF-8", (3, 0))
    corpus.bad_header("bad_utf8_overlong", b"{'\xc0\xaf': 1}", "UTF-8", (3, 0))
    corpus.bad_header("bad_utf8_cut", header_text().encode() + b"\xe4\xb8", "UTF-8", (3, 0))
    corpus.bad_header("bad_byte_order_mark", b"\xef\xbb\xbf" + header_text().encode(), "offset 12", (3, 0))
    corpus.bad_header("bad_python2_long", header_text(shape="(10L,)"), "Python 2", (3, 0))
    corpus.bad_header("bad_python2_small_l", header_text(shape="(10l,)"), "10l")


def add_bad_shapes(corpus):
    shapes = {"number": ("3", "(N,)"), "in_parentheses": ("(3)", "(N,)"), "list": ("[3]", "(N,)"), "none": ("None", "tuple"),
              "string": ("'3'", "tuple"), "negative": ("(-3,)", "-3"), "boolean": ("(True,)", "True"), "float": ("(3.0,)", "3.0"),
              "exponent": ("(3e0,)", "3e0"), "exponent_signed": ("(3e+0,)", "3e+0"), "hexadecimal": ("(0x3,)", "0x3"),
              "octal": ("(0o3,)", "0o3"), "old_octal": ("(03,)", "03"), "underscore": ("(1_000,)", "1_000"),
              "complex": ("(3j,)", "3j"),
              "nested": ("((3,),)", "(3,)"), "strings": ("('3',)", "'3'"), "none_inside": ("(None,)", "None"),
              "too_large": ("(9223372036854775808,)", "2^63"), "huge": ("(%s,)" % ("9" * 400), "2^63"),
              "bytes_overflow": ("(4611686018427387904,)", "2^63"), "product_overflow": ("(4294967296, 4294967296)", "2^63"),
              "overflow_beside_zero": ("(4294967296, 4294967296, 0)", "2^63"),
              "overflow_behind_zero": ("(0, 4294967296, 4294967296)", "2^63"),
              "bytes_overflow_beside_zero": ("(9223372036854775807, 0)", "2^63"), "65_dimensions": (str((1,) * 65),
              "64 dimensions"),
              "many_dimensions": ("(" + "1," * 30000 + ")", "64 dimensions"), "lone_comma": ("(,)", "','"),
              "no_comma": ("(3 4)", "'4'"), "lone_sign": ("(-,)", "'-,'"), "two_signs": ("(--3,)", "--")}
    for name, (shape, contains) in shapes.items():
        corpus.bad_header("bad_shape_" + name, header_text(shape=shape), contains)
    corpus.bad_header("bad_shape_and_subarray_dimensions", header_text("('<f4', (1, 1))", shape=str((1,) * 63)), "64 dimensions")
    corpus.bad_header("bad_shape_and_subarray_overflow", header_text("('<f4', (1073741824,))", shape="(2147483648, 2)"), "2^63")
    corpus.bad_header("bad_shape_zero_width_overflow", header_text("'S0'", shape="(9223372036854775807, 2)"), "2^63")


def add_bad_types(corpus):
    codes = {"empty": ("", "type code"), "order_only": ("<", "type code"), "unknown": ("<z4", "<z4"), "size": ("<f3", "<f3"),
             "int_16": ("<i16", "<i16"), "float_1": ("<f1", "<f1"), "bool_2": ("<b2", "<b2"), "at_order": ("@f4", "@f4"),
             "network_order": ("!f4", "!f4"), "space_after": ("<f4 ", "<f4 "), "space_before": (" <f4", " <f4"),
             "none_order": ("|f4", "byte order"), "none_order_int": ("|i2", "byte order"),
             "none_order_complex": ("|c8", "byte order"),
             "none_order_time": ("|M8[ns]", "byte order"), "long_double": ("<f16", "long double"),
             "complex_long_double": (">c32", "complex long double"), "long_double_x86": ("<f12", "long double"),
             "long_double_name": ("float128", "long double"), "object": ("|O", "Python objects"),
             "object_8": ("O8", "Python objects"),
             "object_name": ("object", "Python objects"), "unit_unknown": ("<M8[fortnight]", "unit"),
             "unit_empty": ("<M8[]", "unit"),
             "unit_open": ("<M8[ns", "unit"), "unit_number": ("<M8[25]", "unit"), "unit_negative": ("<M8[-2s]", "unit"),
             "unit_overflow": ("<M8[2147483648s]", "unit"), "unit_behind": ("<M8[ns]x", "unit"),
             "unit_divided": ("<M8[s/10]", "unit"),
             "time_4": ("<M4[s]", "M4"), "width_negative": ("|S-1", "width"), "width_text": ("|S5x", "width"),
             "width_overflow": ("|S99999999999999999999", "2^63"), "width_overflow_unicode": ("<U4611686018427387904", "2^63"),
             "several": ("f4,i4", "(name, type)"), "repeated": ("2f4", "(type, shape)"),
             "control_bytes": ("\\x1b[31m", "\\x1b[31m"), "long": ("x" * 5000, "...")}
    for name, (code, contains) in codes.items():
        corpus.bad_header("bad_type_" + name, header_text("'%s'" % code), contains)
    descrs = {"number": ("4", "number 4"), "none": ("None", "None"),
              "dictionary": ("{'names': ['x'], 'formats': ['<f4']}", "dictionary"),
              "bytes": ("b'<f4'", "prefix 'b'"), "empty_tuple": ("()", "tuple"), "one_tuple": ("('<f4',)", "tuple"),
              "three_tuple": ("('<f4', 2, 3)", "tuple"), "two_types": ("('<f4', '<f4')", "sub-array"),
              "metadata": ("('<f4', {'a': 1})", "sub-array"), "subarray_negative": ("('<f4', (-1,))", "-1"),
              "subarray_boolean": ("('<f4', True)", "True"), "subarray_float": ("('<f4', (2.0,))", "2.0"),
              "subarray_dimensions": ("('<f4', %s)" % str((1,) * 65), "64 dimensions"),
              "subarray_nested_dimensions": ("(('<f4', %s), %s)" % (str((1,) * 40), str((1,) * 40)), "64 dimensions"),
              "subarray_overflow": ("('<f4', (4294967296, 4294967296))", "2^63"),
              "subarray_overflow_beside_zero": ("('<f4', (4294967296, 4294967296, 0))", "2^63"),
              "subarray_of_unsized": ("('S', (5,))", "width"), "subarray_of_nothing": ("(('<f4', (0,)), (2,))", "width"),
              "subarray_object": ("('|O', (2,))", "Python objects"),
              "field_string": ("['xf']", "field"), "field_number": ("[3]", "field"), "field_one": ("[('x',)]", "field"),
              "field_four": ("[('x', '<f4', (2,), 3)]", "field"), "field_name_number": ("[(3, '<f4')]", "name"),
              "field_name_none": ("[(None, '<f4')]", "name"), "field_title_number": ("[((3, 'x'), '<f4')]", "title"),
              "field_name_three": ("[(('a', 'b', 'c'), '<f4')]", "name"), "field_name_list": ("[(['t', 'x'], '<f4')]", "name"),
              "field_repeated": ("[('x', '<f4'), ('y', '<f4'), ('x', '<i4')]", "'x' found twice"),
              "field_title_repeated": ("[(('y', 'x'), '<f4'), ('y', '<f4')]", "'y' found twice"),
              "field_title_own": ("[(('x', 'x'), '<f4')]", "'x' found twice"),
              "field_unnamed_twice": ("[('', '<f4'), ('', '<f4')]", "twice"),
              "field_unknown": ("[('x', '<z4')]", "<z4"), "field_object": ("[('x', '<f4'), ('y', '|O')]", "Python objects"),
              "field_object_nested": ("[('x', [('y', [('z', 'O')])])]", "Python objects"),
              "field_object_padding": ("[('', '|O', (2,))]", "Python objects"),
              "field_long_double": ("[('x', '<f16')]", "long double"), "field_none_order": ("[('x', '|f4')]", "byte order"),
              "field_shape_none": ("[('x', '<f4', None)]", "sub-array"),
              "field_sum_overflow": ("[('x', 'V9223372036854775807'), ('y', 'V9223372036854775807')]", "2^63"),
              "field_dictionary": ("[('x', {'names': ['q'], 'formats': ['f4']})]", "dictionary")}
    for name, (descr, contains) in descrs.items():
        corpus.bad_header("bad_descr_" + name, header_text(descr), contains)


def add_short_data(corpus):
    head = wrap(header_text(shape="(100,)"), align=64)
    corpus.bad("bad_data_none", head, "400 bytes")
    corpus.bad("bad_data_half", head + bytes(200), "200 found")
    corpus.bad("bad_data_one_byte_short", head + bytes(399), "399 found")
    corpus.bad("bad_data_terabyte", wrap(header_text(shape="(274877906944,)"), align=64) + bytes(64), "1099511627776")
    corpus.bad("bad_data_largest", wrap(header_text("'|u1'", shape="(9223372036854775807,)"), align=64), "9223372036854775807")
    corpus.bad("bad_data_structure", wrap(header_text("[('x', '<f4'), ('y', '|V3')]", shape="(2,)")) + bytes(13), "14 bytes")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_corpus.py OUTDIR")
    warnings.simplefilter("ignore")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    # What an earlier version of this script left would be taken for a part of the corpus.
    for name in os.listdir(folder):
        if name.endswith((".npy", ".values.bin")):
            os.remove(os.path.join(folder, name))
    corpus = Corpus(folder)
    for add in [add_arrays, add_structures, add_writings, add_bad_prologues, add_bad_dictionaries, add_bad_shapes, add_bad_types,
                add_short_data]:
        add(corpus)
    names = [entry["name"] for entry in corpus.entries]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        sys.exit("two files of one name: %s" % ", ".join(repeated))
    with open(os.path.join(folder, "manifest.json"), "w") as out:
        json.dump({"files": corpus.entries}, out, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
