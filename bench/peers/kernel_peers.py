"""One peer of kernels.py in a process of its own: takes a request a line on standard input, answers each with a line of JSON.

    kernel_peers.py PEER

First it says what it is: {"version", "device"}, or {"absent": reason}. Then, for each job that kernels.py names:
    {"job", "dtype", "bytes" or "size", "rounds"}
          {"ways": [{"way", "seconds": [of each round], "calls"} or {"way", "note": why there is none}]}
An answer {"error": reason} says that it failed. What is measured is as in bench/harness.hpp: ways alternate, each runs twice in a
round, the second run counts, and a round comes before those that do. The result is checked first.
"""

import gc
import importlib
import importlib.util
import json
import os
import sys
import time

UNWAITED_LAUNCHES = 400  # fewer than a driver queues before it makes the caller wait
GRAPH_LAUNCHES, GRAPH_REPLAYS = 100, 20
SMALL = 1024


class Absent(Exception):
    """The peer is not there, or can't work here; the text says which."""


def load(name):
    if importlib.util.find_spec(name) is None:
        raise Absent("not installed")
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a broken installation throws
        raise Absent(f"installed, but not usable: {type(error).__name__}: {error}") from error


def repeated(calls, call):
    def run():
        for _ in range(calls):
            call()
    return run


class Peer:
    """A job's function gives the ways: (words, calls, run, whether the time ends with the device's work, check)."""

    def __init__(self):
        self.np = load("numpy")
        self.version = self.device = "?"

    def synchronize(self):
        """Waits for the device."""

    def release(self):
        """Gives pooled memory back."""

    def matrices(self, size, dtype):
        """Numbers of both signs between -1 and 1: what a GPU's clock does depends on them."""
        random = self.np.random.default_rng(1)
        return [(2 * random.random((size, size), self.np.float32) - 1).astype(dtype) for _ in range(2)]

    def check_near(self, found, expected, most, what):
        if not abs(found - expected) <= most:
            raise ValueError(f"{what} is {found}, not {expected}")

    def check_product(self, a, b, c, dtype):
        """One element against a sum of float64; the bound tells float32 from TF32, whose products have three digits."""
        expected = float(self.np.dot(a[-1].astype(self.np.float64), b[:, 0].astype(self.np.float64)))
        most = {"float16": 0.5, "float32": 2e-3, "float64": 1e-9}[dtype]
        self.check_near(float(c[-1, 0]), expected, most, "the product's element (-1, 0)")

    def measure(self, ways, rounds):
        seconds = [[] for _ in ways]
        for turn in range(-1, rounds):
            for (_, _, run, is_waited, _), taken in zip(ways, seconds):
                for counts in (False, True):
                    start = time.perf_counter()
                    run()
                    if is_waited:
                        self.synchronize()
                    end = time.perf_counter()
                    self.synchronize()
                    if counts and turn >= 0:
                        taken.append(end - start)
        return seconds

    def answer(self, task):
        ways, told = [], []
        for make in getattr(self, task["job"])(task):
            name = make.__name__.replace("_", " ")
            try:
                way = make()
                way[2]()
                self.synchronize()
                way[4]()
            except Exception as error:  # one way that this version lacks leaves the others
                told.append({"way": make.__doc__ or name, "note": f"{type(error).__name__}: {error}".splitlines()[0][:200]})
                continue
            ways.append(way)
        for way, seconds in zip(ways, self.measure(ways, task["rounds"])):
            told.append({"way": way[0], "calls": way[1], "seconds": seconds})
        return {"ways": told}


class CuPy(Peer):
    KERNEL = """extern "C" __global__ void small(float* out, const float* a, const float* b, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i] + b[i];
}"""

    def __init__(self):
        os.environ["CUPY_TF32"] = "0"  # read where cuBLAS is first used
        super().__init__()
        cp = self.cp = load("cupy")
        self.version = cp.__version__
        if cp.cuda.runtime.getDeviceCount() == 0:
            raise Absent("installed, but finds no device")
        name = cp.cuda.runtime.getDeviceProperties(0)["name"]
        self.device = name.decode() if isinstance(name, bytes) else str(name)

    def synchronize(self):
        self.cp.cuda.Device().synchronize()

    def release(self):
        self.cp.get_default_memory_pool().free_all_blocks()

    def small(self):
        cp = self.cp
        a = cp.arange(SMALL, dtype=cp.float32)
        return a, a.copy(), cp.zeros_like(a)

    def raw(self, arrays):
        kernel = self.cp.RawKernel(self.KERNEL, "small")
        a, b, out = arrays
        count = self.np.int32(SMALL)
        return lambda: kernel((SMALL // 256,), (256,), (out, a, b, count))

    def launch(self, _task):
        def raw_kernel():
            """cupy.RawKernel"""
            arrays = self.small()
            return (raw_kernel.__doc__, UNWAITED_LAUNCHES, repeated(UNWAITED_LAUNCHES, self.raw(arrays)), False,
                    lambda: self.check_near(float(arrays[2][-1]), 2 * (SMALL - 1), 0, "the last sum"))

        def add():
            """cupy.add(a, b, out=c)"""
            a, b, out = self.small()
            return (add.__doc__, UNWAITED_LAUNCHES, repeated(UNWAITED_LAUNCHES, lambda: self.cp.add(a, b, out=out)), False,
                    lambda: self.check_near(float(out[-1]), 2 * (SMALL - 1), 0, "the last sum"))
        return [raw_kernel, add]

    def fusion(self, x, y, out):
        kernel = self.cp.ElementwiseKernel("T x, T y", "T out", "out = T(2) * x + y", "axpy")
        return lambda: kernel(x, y, out)

    def issue(self, _task):
        def elementwise_kernel():
            """cupy.ElementwiseKernel('out = T(2) * x + y')"""
            a, b, out = self.small()
            return (elementwise_kernel.__doc__, UNWAITED_LAUNCHES, repeated(UNWAITED_LAUNCHES, self.fusion(a, b, out)), False,
                    lambda: self.check_near(float(out[-1]), 3 * (SMALL - 1), 0, "the last result"))
        return [elementwise_kernel]

    def replay(self, _task):
        def graph():
            """100 x cupy.RawKernel, captured as a CUDA graph"""
            arrays = self.small()
            launch = self.raw(arrays)
            stream = self.cp.cuda.Stream(non_blocking=True)
            launch()  # compiled and loaded, which can't be captured
            self.synchronize()
            with stream:
                stream.begin_capture()
                repeated(GRAPH_LAUNCHES, launch)()
                captured = stream.end_capture()
            return (graph.__doc__, GRAPH_REPLAYS, repeated(GRAPH_REPLAYS, lambda: captured.launch(stream)), True,
                    lambda: self.check_near(float(arrays[2][-1]), 2 * (SMALL - 1), 0, "the last sum"))
        return [graph]

    def fused(self, task):
        cp, repeats = self.cp, task["repeats"]
        count = task["bytes"] // self.np.dtype(task["dtype"]).itemsize
        x, y = cp.full(count, 3.0, task["dtype"]), cp.full(count, 0.5, task["dtype"])
        out = cp.empty_like(x)

        def check():
            self.check_near(float(out[-1]), 6.5, 0, "the last result")

        def elementwise_kernel():
            """cupy.ElementwiseKernel('out = T(2) * x + y')"""
            return elementwise_kernel.__doc__, repeats, repeated(repeats, self.fusion(x, y, out)), True, check

        def two_operations():
            """cupy.multiply(x, a, out=c); cupy.add(c, y, out=c)"""
            scalar = self.np.dtype(task["dtype"]).type(2)

            def run():
                cp.multiply(x, scalar, out=out)
                cp.add(out, y, out=out)
            return two_operations.__doc__, repeats, repeated(repeats, run), True, check
        return [elementwise_kernel, two_operations]

    def gemm(self, task):
        def matmul():
            """cupy.matmul(a, b, out=c)"""
            host = self.matrices(task["size"], task["dtype"])
            a, b = (self.cp.asarray(matrix) for matrix in host)
            c = self.cp.empty_like(a)
            return (matmul.__doc__, task["repeats"], repeated(task["repeats"], lambda: self.cp.matmul(a, b, out=c)), True,
                    lambda: self.check_product(*host, c, task["dtype"]))
        return [matmul]


class Torch(Peer):
    def __init__(self):
        super().__init__()
        torch = self.torch = load("torch")
        self.version = torch.__version__
        if not torch.cuda.is_available():
            raise Absent("installed, but finds no CUDA device")
        self.device = torch.cuda.get_device_name(0)
        torch.set_float32_matmul_precision("highest")  # no TF32
        torch.set_grad_enabled(False)

    def synchronize(self):
        self.torch.cuda.synchronize()

    def release(self):
        self.torch.cuda.empty_cache()

    def small(self):
        a = self.torch.arange(SMALL, dtype=self.torch.float32, device="cuda")
        return a, a.clone(), self.torch.zeros_like(a)

    def launch(self, _task):
        def add():
            """torch.add(a, b, out=c)"""
            a, b, out = self.small()
            return (add.__doc__, UNWAITED_LAUNCHES, repeated(UNWAITED_LAUNCHES, lambda: self.torch.add(a, b, out=out)), False,
                    lambda: self.check_near(float(out[-1]), 2 * (SMALL - 1), 0, "the last sum"))
        return [add]

    def issue(self, _task):
        def add_alpha():
            """torch.add(y, x, alpha=a, out=c)"""
            x, y, out = self.small()
            return (add_alpha.__doc__, UNWAITED_LAUNCHES,
                    repeated(UNWAITED_LAUNCHES, lambda: self.torch.add(y, x, alpha=2.0, out=out)), False,
                    lambda: self.check_near(float(out[-1]), 3 * (SMALL - 1), 0, "the last result"))
        return [add_alpha]

    def replay(self, _task):
        def graph():
            """100 x torch.add(a, b, out=c), captured as a CUDA graph"""
            torch = self.torch
            a, b, out = self.small()
            torch.add(a, b, out=out)
            self.synchronize()
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                for _ in range(GRAPH_LAUNCHES):
                    torch.add(a, b, out=out)
            return (graph.__doc__, GRAPH_REPLAYS, repeated(GRAPH_REPLAYS, captured.replay), True,
                    lambda: self.check_near(float(out[-1]), 2 * (SMALL - 1), 0, "the last sum"))
        return [graph]

    def fused(self, task):
        torch, repeats = self.torch, task["repeats"]
        dtype = getattr(torch, task["dtype"])
        count = task["bytes"] // self.np.dtype(task["dtype"]).itemsize
        x, y = (torch.full((count,), number, dtype=dtype, device="cuda") for number in (3.0, 0.5))
        out = torch.empty_like(x)

        def add_alpha():
            """torch.add(y, x, alpha=a, out=c)"""
            return (add_alpha.__doc__, repeats, repeated(repeats, lambda: torch.add(y, x, alpha=2.0, out=out)), True,
                    lambda: self.check_near(float(out[-1]), 6.5, 0, "the last result"))

        def compiled():
            """torch.compile(2 * x + y), into a new array"""
            function = torch.compile(lambda x, y: 2.0 * x + y)
            return (compiled.__doc__, repeats, repeated(repeats, lambda: function(x, y)), True,
                    lambda: self.check_near(float(function(x, y)[-1]), 6.5, 0, "the last result"))
        return [add_alpha, compiled]

    def gemm(self, task):
        def matmul():
            """torch.matmul(a, b, out=c)"""
            host = self.matrices(task["size"], task["dtype"])
            a, b = (self.torch.from_numpy(matrix).cuda() for matrix in host)
            c = self.torch.empty_like(a)
            return (matmul.__doc__, task["repeats"], repeated(task["repeats"], lambda: self.torch.matmul(a, b, out=c)), True,
                    lambda: self.check_product(*host, c, task["dtype"]))
        return [matmul]


class NumPy(Peer):
    """On the host, for its devices."""

    def __init__(self):
        super().__init__()
        self.version, self.device = self.np.__version__, "host"

    def launch(self, _task):
        return []

    issue = replay = launch

    def fused(self, task):
        np, repeats = self.np, task["repeats"]
        count = task["bytes"] // np.dtype(task["dtype"]).itemsize
        x, y = np.full(count, 3.0, task["dtype"]), np.full(count, 0.5, task["dtype"])
        out = np.empty_like(x)

        def two_operations():
            """numpy.multiply(x, a, out=c); numpy.add(c, y, out=c)"""
            def run():
                np.multiply(x, 2, out=out)
                np.add(out, y, out=out)
            return (two_operations.__doc__, repeats, repeated(repeats, run), True,
                    lambda: self.check_near(float(out[-1]), 6.5, 0, "the last result"))
        return [two_operations]

    def gemm(self, task):
        if task["dtype"] == "float16":  # by a plain loop, for hours
            return []

        def matmul():
            """numpy.matmul(a, b, out=c)"""
            a, b = self.matrices(task["size"], task["dtype"])
            c = self.np.empty_like(a)
            return (matmul.__doc__, task["repeats"], repeated(task["repeats"], lambda: self.np.matmul(a, b, out=c)), True,
                    lambda: self.check_product(a, b, c, task["dtype"]))
        return [matmul]


PEERS = {"cupy": CuPy, "torch": Torch, "numpy": NumPy}
JOBS = ("launch", "issue", "replay", "fused", "gemm")


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def tell(answer):
        print(json.dumps(answer), file=answers, flush=True)

    try:
        peer = PEERS[sys.argv[1]]()
    except Absent as reason:
        tell({"absent": str(reason)})
        return
    except Exception as error:  # a driver that is too old, for one
        tell({"absent": f"installed, but not usable: {type(error).__name__}: {error}".splitlines()[0][:200]})
        return
    tell({"version": str(peer.version), "device": peer.device})
    for line in sys.stdin:
        task = json.loads(line)
        try:
            if task["job"] not in JOBS:
                raise ValueError(f"no job is named {task['job']}")
            answer = peer.answer(task)
        except Exception as error:  # out of memory, for one
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        gc.collect()
        peer.release()
        tell(answer)


if __name__ == "__main__":
    main()
