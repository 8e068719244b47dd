"""One peer in a process of its own: takes one request a line on standard input, and answers each with one line of JSON.

    worker.py PEER

First it says what it is: {"version", "device", "backend", "ways": [{"job", "way"}]}, or {"absent": reason}. Then:
    {"do": "begin", "way": N, "file", "data_offset", "safetensors", "small": [paths], "count", "array_count", "small_count"}
                     makes what the way works on; counts are elements
    {"do": "run"}    does it: {"seconds", "cpu_seconds"}; the result has been checked
    {"do": "end"}    lets go of it all, pools too
An answer {"error": reason} says that it failed.
"""

import gc
import importlib
import importlib.util
import json
import os
import resource
import sys
import time
import warnings

PERIOD = 4093  # element i of every file is i % PERIOD


class Absent(Exception):
    """The peer is not there, or can't work here; the text says which."""


def load(name):
    top = name.split(".", maxsplit=1)[0]
    if importlib.util.find_spec(top) is None:
        raise Absent("not installed" if top == NAME else f"needs {top}, which is not installed")
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a broken installation throws
        raise Absent(f"installed, but not usable: {type(error).__name__}: {error}") from error


def some_indices(count):
    return sorted({0, count // 2, count - 1})


class Peer:
    """What all have in common. A way is (job, words, begin, run); `begin` gives what `run` needs, `run` gives what is checked."""

    backend = "cuda"

    def __init__(self):
        self.np = load("numpy")
        self.device = "?"
        self.version = "?"

    def mapped(self, task):
        return self.np.load(task["file"], mmap_mode="r")

    def values(self, count):
        """The first `count` elements, in host memory."""
        return self.np.resize(self.np.arange(PERIOD, dtype=self.np.float32), count)

    def synchronize(self):
        """Waits for the device."""

    def release(self):
        """Gives pooled memory back."""

    def element(self, result, index):
        return float(result[index])

    def check(self, job, task, result):
        factor = 2 if job in ("add", "double") else 1
        count = task[{"load": "count", "small": "small_count"}.get(job, "array_count")]
        shape = tuple(int(length) for length in result.shape)
        if shape != (count,):
            raise ValueError(f"the result's shape is {shape}, not ({count},)")
        for index in some_indices(count):
            found, expected = self.element(result, index), float(factor * (index % PERIOD))
            if found != expected:
                raise ValueError(f"element {index} is {found}, not {expected}")


def nothing(_task):
    return None


def each(load_one):
    """Loads one small file after the other; the last array."""
    def run(task, _):
        result = None
        for path in task["small"]:
            result = load_one(path)
        return result
    return run


class NumPy(Peer):
    backend = "host"

    def __init__(self):
        super().__init__()
        self.version, self.device = self.np.__version__, "host"
        np = self.np

        def arrays(task):
            left = self.values(task["array_count"])
            return left, left.copy(), np.empty_like(left)

        self.ways = [
            ("load", "np.load", nothing, lambda task, _: np.load(task["file"])),
            ("add", "np.add(a, b, out=c)", arrays, lambda _, a: np.add(a[0], a[1], out=a[2])),
            ("double", "np.multiply(a, 2, out=c)", arrays, lambda _, a: np.multiply(a[0], 2, out=a[2])),
            ("small", "np.load", nothing, each(np.load)),
        ]


class CuPy(Peer):
    def __init__(self):
        super().__init__()
        np, cp = self.np, load("cupy")
        self.cp, self.version = cp, cp.__version__
        if cp.cuda.runtime.getDeviceCount() == 0:
            raise Absent("installed, but finds no device")
        name = cp.cuda.runtime.getDeviceProperties(0)["name"]
        self.device = name.decode() if isinstance(name, bytes) else str(name)

        def arrays(task):
            left = cp.asarray(self.values(task["array_count"]))
            return left, left.copy(), cp.empty_like(left)

        self.ways = [
            ("load", "cupy.load", nothing, lambda task, _: cp.load(task["file"])),
            ("load", "cupy.asarray(np.load(mmap_mode='r'))", nothing, lambda task, _: cp.asarray(self.mapped(task))),
            ("add", "cupy.add(a, b, out=c)", arrays, lambda _, a: cp.add(a[0], a[1], out=a[2])),
            ("double", "cupy.multiply(a, 2, out=c)", arrays, lambda _, a: cp.multiply(a[0], np.float32(2), out=a[2])),
            ("small", "cupy.load", nothing, each(cp.load)),
        ]

    def synchronize(self):
        self.cp.cuda.Device().synchronize()

    def release(self):
        self.cp.get_default_memory_pool().free_all_blocks()
        self.cp.get_default_pinned_memory_pool().free_all_blocks()


class Torch(Peer):
    def __init__(self):
        super().__init__()
        np, torch = self.np, load("torch")
        self.torch, self.version = torch, torch.__version__
        if not torch.cuda.is_available():
            raise Absent("installed, but finds no CUDA device")
        self.device = torch.cuda.get_device_name(0)
        # Files mapped for reading: it says that it can't know who writes to them.
        warnings.filterwarnings("ignore", message=".*not writ[ae]*ble.*")

        def arrays(task):
            left = torch.from_numpy(self.values(task["array_count"])).cuda()
            return left, left.clone(), torch.empty_like(left)

        self.ways = [
            ("load", "torch.from_numpy(np.load(mmap_mode='r')).cuda()", nothing,
             lambda task, _: torch.from_numpy(self.mapped(task)).cuda()),
            ("add", "torch.add(a, b, out=c)", arrays, lambda _, a: torch.add(a[0], a[1], out=a[2])),
            ("double", "torch.mul(a, 2, out=c)", arrays, lambda _, a: torch.mul(a[0], 2, out=a[2])),
            ("small", "torch.from_numpy(np.load).cuda()", nothing,
             each(lambda path: torch.from_numpy(np.load(path)).cuda())),
        ]

    def synchronize(self):
        self.torch.cuda.synchronize()

    def release(self):
        self.torch.cuda.empty_cache()


class Safetensors(Torch):
    def __init__(self):
        package, files = load("safetensors"), load("safetensors.torch")
        super().__init__()
        self.version = getattr(package, "__version__", "?")
        self.ways = [("load", "safetensors.torch.load_file(device='cuda')", nothing,
                      lambda task, _: files.load_file(task["safetensors"], device="cuda")["elements"])]


class Numba(Peer):
    def __init__(self):
        super().__init__()
        self.version, self.cuda = load("numba").__version__, load("numba.cuda")
        if not self.cuda.is_available():
            raise Absent("installed, but finds no CUDA device")
        # Its simulator of a device has none.
        current = getattr(self.cuda, "get_current_device", None)
        name = current().name if current else "simulator"
        self.device = name.decode() if isinstance(name, bytes) else str(name)
        self.ways = [("load", "numba.cuda.to_device(np.load(mmap_mode='r'))", nothing,
                      lambda task, _: self.cuda.to_device(self.mapped(task)))]

    def synchronize(self):
        self.cuda.synchronize()

    def element(self, result, index):
        return float(result[index:index + 1].copy_to_host()[0])


class PyOpenCL(Peer):
    backend = "opencl"

    def __init__(self):
        super().__init__()
        cl, arrays = load("pyopencl"), load("pyopencl.array")
        self.version = getattr(cl, "VERSION_TEXT", "?")
        try:
            devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
        except cl.Error as error:
            raise Absent(f"installed, but finds no device: {error}") from error
        if not devices:
            raise Absent("installed, but finds no device")
        # A GPU where there is one, as the library prefers them.
        devices.sort(key=lambda device: not device.type & cl.device_type.GPU)
        self.device = devices[0].name.strip()
        self.queue = cl.CommandQueue(cl.Context([devices[0]]))
        self.ways = [("load", "pyopencl.array.to_device(np.load(mmap_mode='r'))", nothing,
                      lambda task, _: arrays.to_device(self.queue, self.mapped(task)))]

    def synchronize(self):
        self.queue.finish()

    def element(self, result, index):
        return float(result[index:index + 1].get()[0])


class KvikIO(CuPy):
    def __init__(self):
        kvikio = load("kvikio")
        super().__init__()
        self.version = getattr(kvikio, "__version__", "?")

        def read(task, _):
            result = self.cp.empty(task["count"], self.np.float32)
            with kvikio.CuFile(task["file"], "r") as file:
                done = file.read(result, file_offset=task["data_offset"])
            if done != result.nbytes:
                raise ValueError(f"{done} of {result.nbytes} bytes read")
            return result

        self.ways = [("load", "kvikio.CuFile.read", nothing, read)]


PEERS = {"numpy": NumPy, "cupy": CuPy, "torch": Torch, "safetensors": Safetensors, "numba": Numba, "pyopencl": PyOpenCL,
         "kvikio": KvikIO}
NAME = sys.argv[1] if len(sys.argv) > 1 else ""


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def answers(peer, requests):
    way = task = material = None
    for request in requests:
        if request["do"] == "begin":
            way, task = peer.ways[request["way"]], request
            material = way[2](task)
            peer.synchronize()
            yield {}
        elif request["do"] == "run":
            cpu_before, start = cpu_seconds(), time.perf_counter()
            result = way[3](task, material)
            peer.synchronize()
            taken = {"seconds": time.perf_counter() - start, "cpu_seconds": cpu_seconds() - cpu_before}
            peer.check(way[0], task, result)
            del result
            yield taken
        else:
            way = task = material = None
            gc.collect()
            peer.release()
            yield {}


def describe(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def main():
    # What libraries print must not come between the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    try:
        if importlib.util.find_spec(NAME) is None:
            raise Absent("not installed")
        peer = PEERS[NAME]()
    except Absent as reason:
        answer({"absent": " ".join(str(reason).split())})
        return
    except Exception as error:  # a device that can't be opened is a reason too
        answer({"absent": "installed, but not usable: " + describe(error)})
        return
    answer({"version": str(peer.version), "device": peer.device, "backend": peer.backend,
            "ways": [{"job": job, "way": words} for job, words, _, _ in peer.ways]})
    requests = (json.loads(line) for line in sys.stdin)
    while True:
        running = answers(peer, requests)
        try:
            for message in running:
                answer(message)
            return
        except Exception as error:  # told, and the next request is another way's
            answer({"error": describe(error)})


if __name__ == "__main__":
    main()
