#!/usr/bin/env python3
"""Measures a compiled kernel beside PyTorch or Triton callables, in one process.

    side_by_side.py --cubin gemm.cubin --manifest gemm.json --peers peers.py \\
        --size m=4096 --size n=4096 --size k=4096 [--regime burst,sustained] [--json out.json]

The kernel is launched from its manifest through the CUDA driver (ctypes), in PyTorch's context and
stream. The peers file is Python and defines:

    def make(sizes):            # one set of buffers: every argument of the kernel by its name,
        m, n, k = sizes["m"], sizes["n"], sizes["k"]      # and whatever else the peers need
        a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        b = torch.randn(n, k, device="cuda", dtype=torch.float16)
        return dict(a=a, b=b, c=torch.full((m, n), float("nan"), device="cuda", dtype=a.dtype),
                    out=torch.empty(m, n, device="cuda", dtype=a.dtype), m=m, n=n, k=k)

    PEERS = {"torch.mm": lambda t: torch.mm(t["a"], t["b"].t(), out=t["out"])}

    def check(t):               # optional, after one launch of the kernel: error and its limit
        ref = t["a"].double() @ t["b"].double().t()
        return ((t["c"].double() - ref).norm() / ref.norm()).item(), 3e-4

    def work(sizes):            # optional: floating-point operations and bytes of one launch
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        return 2 * m * n * k, 2 * (m * k + n * k + m * n)

    def summary(rows, sizes):   # optional: what to print below the table
        return ""

Regimes: burst (20 ms idle, then at most 3 ms of launches, at least one) and sustained (0.3 s to settle,
then a window of 0.6 s). Every contender is replayed from a CUDA graph of one burst, so that no host's
launch is part of a time; a contender that cannot be captured is marked. Contenders alternate in random
order within each of the rounds; buffers rotate. A ratio is the geometric mean of the rounds' ratios.

A peers file may make PEERS a function of the sizes. `table.py` measures whole families.
"""

import argparse
import ctypes
import importlib.util
import json
import math
import pathlib
import random
import statistics
import struct
import sys
import time

import torch

import facts
from facts import FUNCTIONS

MANIFEST_VERSION = 1
IDLE, BURST, SETTLE, WINDOW = 0.020, 0.003, 0.3, 0.6

# --- the driver ----------------------------------------------------------------------------------

cuda = ctypes.CDLL("libcuda.so.1")
for _name in ("cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernelEx",
              "cuTensorMapEncodeTiled", "cuMemsetD8Async", "cuGetErrorName"):
    getattr(cuda, _name).restype = ctypes.c_uint


def call(name, *args):
    """Calls a driver function and raises its error by name."""
    code = getattr(cuda, name)(*args)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        raise RuntimeError(f"{name} failed with {(text.value or b'?').decode()} ({code})")


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


CLUSTER_DIMENSION, PROGRAMMATIC, MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 4, 6, 8, 14
ELEMENTS = {"u8": (0, 1), "u16": (1, 2), "u32": (2, 4), "i32": (3, 4), "u64": (4, 8),
            "i64": (5, 8), "f16": (6, 2), "f32": (7, 4), "f64": (8, 8), "bf16": (9, 2)}
SWIZZLES, PROMOTIONS = (0, 32, 64, 128), (0, 64, 128, 256)
FLOATS = {"f64": "<d", "f32": "<f", "tf32": "<f", "f16": "<e"}


# --- the kernel, from its manifest ---------------------------------------------------------------

def scalar_bytes(ty, value):
    """Little-endian bytes of a scalar argument."""
    if ty in FLOATS:
        return struct.pack(FLOATS[ty], value)
    if ty == "bf16":
        return torch.tensor(value, dtype=torch.bfloat16).view(torch.uint16).numpy().tobytes()
    bits = 1 if ty == "bool" else int(ty[1:])
    size = 1 << max(0, (bits - 1).bit_length() - 3)
    return int(value).to_bytes(size, "little", signed=ty[0] == "i")


class Kernel:
    """A cubin with its manifest."""

    def __init__(self, cubin, manifest):
        with open(manifest, encoding="utf-8") as file:
            self.manifest = json.load(file)
        self.name = pathlib.Path(cubin).stem
        if self.manifest["version"] != MANIFEST_VERSION:
            raise ValueError(f"manifest version {self.manifest['version']}, not {MANIFEST_VERSION}")
        with open(cubin, "rb") as file:
            image = file.read()
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(self.module), image + b"\0")
        call("cuModuleGetFunction", ctypes.byref(self.function), self.module,
             self.manifest["entry"].encode())
        if self.manifest["dynamic_shared"] > 48 << 10:
            call("cuFuncSetAttribute", self.function, MAX_DYNAMIC_SHARED,
                 self.manifest["dynamic_shared"])
        if math.prod(self.manifest["cluster"]) > 8:
            call("cuFuncSetAttribute", self.function, NON_PORTABLE_CLUSTER, 1)
        self.sm_count = torch.cuda.get_device_properties(0).multi_processor_count

    def prepare(self, args):
        """Checks arguments (tensors and numbers by name); returns a function that launches."""
        types = {a["name"]: a["type"] for a in self.manifest["arguments"]}
        missing = [name for name in types if name not in args]
        if missing:
            raise ValueError(f"the peers file makes no {', '.join(missing)}")
        args = self.packed(args)
        values = {name: args[name].data_ptr() if isinstance(args[name], torch.Tensor)
                  else args[name] for name in types}
        scope = dict(FUNCTIONS, sm_count=self.sm_count, **values)
        sizes = {name: args[name].nbytes for name in types if isinstance(args[name], torch.Tensor)}
        facts.check(self.manifest["facts"], dict(values, sm_count=self.sm_count), sizes)
        evaluate = lambda text: eval(text, scope)  # pylint: disable=eval-used
        grid = [evaluate(text) for text in self.manifest["grid"]]
        size = evaluate(self.manifest["workspace"])
        # Zero before the first launch; each launch leaves it as the next one needs it.
        workspace = torch.zeros(max(size, 1), dtype=torch.uint8, device="cuda")
        if 0 in grid:
            return lambda: None
        slots = [self.param(p, types, values, evaluate, workspace)
                 for p in self.manifest["params"]]
        return self.launcher(grid, slots, (workspace, args))

    def packed(self, args):
        """The arguments, with the arrays packed that the manifest wants packed."""
        numbers = {k: v for k, v in args.items() if not isinstance(v, torch.Tensor)}
        scope = dict(FUNCTIONS, **numbers)
        wanted = {a["name"]: a["packing"] for a in self.manifest["arguments"] if "packing" in a}
        return dict(args, **{name: pack(p, args[name], scope) for name, p in wanted.items()})

    def launcher(self, grid, slots, kept):
        """A function that launches with finished parameters in PyTorch's current stream."""
        pointers = (ctypes.c_void_p * len(slots))(*[ctypes.addressof(s) for s in slots])
        config = Config(grid=tuple(grid), block=(self.manifest["block"], 1, 1),
                        shared=self.manifest["dynamic_shared"])
        attributes = (Attribute * 2)()
        if self.manifest["cluster"] != [1, 1, 1]:
            attributes[0].id, attributes[0].value[:3] = CLUSTER_DIMENSION, self.manifest["cluster"]
            config.count = 1
        if self.manifest.get("pdl"):
            attributes[config.count].id, attributes[config.count].value[0] = PROGRAMMATIC, 1
            config.count += 1
        config.attributes = attributes

        def launch(_keep=(slots, attributes, kept)):
            config.stream = torch.cuda.current_stream().cuda_stream
            call("cuLaunchKernelEx", ctypes.byref(config), self.function, pointers, None)
        return launch

    def param(self, param, types, values, evaluate, workspace):
        """Memory of one parameter, aligned for a tensor map."""
        kind = param["kind"]
        if kind == "tensor_map":
            return tensor_map(param, values, evaluate)
        if kind == "workspace":
            data = struct.pack("<Q", workspace.data_ptr() + evaluate(param.get("offset", "0")))
        elif types[param["name"]].startswith("ptr"):
            data = struct.pack("<Q", values[param["name"]])
        else:
            data = scalar_bytes(types[param["name"]], values[param["name"]])
        slot = (ctypes.c_char * 8)()
        ctypes.memmove(slot, data, len(data))
        return slot


def units(bits):
    """Elements that fill whole bytes together, and how many bytes those are."""
    elements = 8 // math.gcd(bits, 8)
    return elements, elements * bits // 8


def part(data, bits):
    """Elements of fewer than 8 bits, packed with no gaps, as one byte each."""
    count, size = units(bits)
    data = data.view(-1, size)
    word = torch.int32 if 8 * size < 32 else torch.int64
    whole = sum(data[:, i].to(word) << 8 * i for i in range(size))
    each = [(whole >> bits * i & (1 << bits) - 1).to(torch.uint8) for i in range(count)]
    return torch.stack(each, 1).flatten()


def join(elements, bits):
    """One byte each, packed with no gaps."""
    if bits == 8:
        return elements.contiguous()
    count, size = units(bits)
    elements = elements.view(-1, count)
    word = torch.int32 if 8 * size < 32 else torch.int64
    whole = sum(elements[:, i].to(word) << bits * i for i in range(count))
    return torch.stack([(whole >> 8 * i & 255).to(torch.uint8) for i in range(size)], 1).flatten()


def pack(packing, tensor, scope):
    """A packed copy of an array: tiles one after the other, each in the order that its digits give."""
    evaluate = lambda text: eval(text, scope)  # pylint: disable=eval-used
    outer = math.prod(evaluate(text) for text in packing.get("outer", []))
    rows, columns = (evaluate(text) for text in packing["extents"])
    (height, width), bits = packing["tile"], packing["bits"]
    elements = tensor.contiguous().view(torch.uint8).flatten()
    if bits < 8:
        elements = part(elements, bits)
    parts = max(1, bits // 8)
    elements = elements[:outer * rows * columns * parts].view(outer, rows, columns, parts)
    below, beside = -rows % height, -columns % width
    elements = torch.nn.functional.pad(elements, (0, 0, 0, beside, 0, below))
    places = [0]
    for digit in packing["digits"]:
        row, column = digit["step"]
        step = row * width + column
        places = [p + v * step for v in range(digit["extent"]) for p in places]
    tiles = elements.view(-1, height, elements.shape[2] // width, width, parts).transpose(1, 2)
    tiles = tiles.reshape(-1, height * width, parts)[:, torch.tensor(places, device=tensor.device)]
    if packing.get("zeros"):
        tiles = torch.cat([tiles, torch.zeros_like(tiles[:1])])
    return join(tiles.flatten(), bits) if bits < 8 else tiles.contiguous()


def tensor_map(param, values, evaluate):
    """A CUtensorMap."""
    code, _ = ELEMENTS[param["element"]]
    dims = [evaluate(text) for text in param["dims"]]
    strides = [evaluate(text) for text in param["strides"]]
    if 0 in dims:
        raise ValueError(f"`{param['base']}` is empty: launch it from the warplift binary")
    if any(not 1 <= side <= 256 for side in param["box"]):
        raise ValueError(f"box {param['box']} of `{param['base']}` is not within 1..=256")
    rank = len(dims)
    room = (ctypes.c_char * 256)()
    slot = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 128)
    words = lambda ty, list_: (ty * max(1, len(list_)))(*list_)
    base = values[param["base"]] + evaluate(param.get("offset", "0"))
    call("cuTensorMapEncodeTiled", ctypes.byref(slot), code, rank, ctypes.c_void_p(base),
         words(ctypes.c_uint64, dims), words(ctypes.c_uint64, strides),
         words(ctypes.c_uint32, param["box"]), words(ctypes.c_uint32, [1] * rank), 0,
         SWIZZLES.index(param["swizzle"]), PROMOTIONS.index(param["l2_promotion"]), 0)
    return slot


# --- measuring -----------------------------------------------------------------------------------

class Lane:
    """A contender: one callable per set of buffers."""

    def __init__(self, name, callables):
        self.name, self.callables, self.rotation = name, callables, 0
        self.graph, self.times = None, []
        for count in (3, 5):
            self.estimate = self.timed(count)
        self.estimate = self.timed(min(100, self.fitting(0.002)))
        self.capture()

    def fitting(self, seconds):
        """Launches that fit into a time."""
        return max(1, int(seconds / self.estimate))

    def capture(self):
        """Captures a burst of launches and replays it to warm up. What cannot be captured stays without."""
        count = min(512, self.fitting(BURST))
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.enqueue(count)
        except RuntimeError as error:
            print(f"{self.name}: launched one by one: {error}", file=sys.stderr)
            torch.cuda.synchronize()
            return
        self.graph, self.size = graph, count
        for _ in range(2):
            self.estimate = self.timed(count)

    def enqueue(self, count):
        """Enqueues about `count` launches; returns how many."""
        if self.graph:
            replays = max(1, count // self.size)
            for _ in range(replays):
                self.graph.replay()
            return replays * self.size
        for _ in range(count):
            self.callables[self.rotation % len(self.callables)]()
            self.rotation += 1
        return count

    def timed(self, count, settle=0):
        """Seconds of a launch over about `count` of them."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if settle:
            self.enqueue(settle)
        start.record()
        count = self.enqueue(count)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3 / count

    def round(self, regime):
        """One round of a regime."""
        if regime == "burst":
            torch.cuda.synchronize()
            time.sleep(IDLE)
            self.times.append(self.timed(self.fitting(BURST)))
        else:
            self.times.append(self.timed(self.fitting(WINDOW), self.fitting(SETTLE)))


def lane_of(name, callables):
    """A peer's lane; none, and its reason, where the peer cannot do the work."""
    try:
        return [Lane(name, callables)]
    except torch.cuda.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError) as error:
        print(f"{name}: left out: {error}", file=sys.stderr)
        torch.cuda.synchronize()
        return []


def measure(lanes, regime, rounds, rng):
    """Runs the rounds; the contenders' times are replaced."""
    for lane in lanes:
        lane.times = []
    for _ in range(rounds):
        for lane in rng.sample(lanes, len(lanes)):
            lane.round(regime)


def row(lane, own, regime, work):
    """What is reported of one contender."""
    seconds = statistics.median(lane.times)
    logs = [math.log(theirs / ours) for ours, theirs in zip(own.times, lane.times)]
    spread = math.exp(statistics.stdev(logs)) - 1 if len(logs) > 1 else 0.0
    flops, size = work
    return {"contender": lane.name, "regime": regime, "us": seconds * 1e6,
            "tflops": flops / seconds * 1e-12, "gbs": size / seconds * 1e-9,
            "ratio": math.exp(statistics.fmean(logs)), "low": math.exp(min(logs)),
            "high": math.exp(max(logs)), "spread": spread, "graph": lane.graph is not None,
            "rounds_us": [t * 1e6 for t in lane.times]}


def rotations(one_set):
    """Sets of buffers that together exceed three times the cache."""
    size = sum(v.nbytes for v in one_set.values() if isinstance(v, torch.Tensor)) or 1
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    free = torch.cuda.mem_get_info()[0]
    return int(max(1, min(64, max(2, math.ceil(3 * cache / size)), free * 3 // 4 // size + 1)))


def load_peers(path):
    """Runs the peers file."""
    spec = importlib.util.spec_from_file_location("peers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    for name in ("cubin", "manifest", "peers"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--also", action="append", default=[], metavar="STEM",
                        help="another mapping of the kernel: STEM.cubin and STEM.json, a contender too")
    parser.add_argument("--without", action="append", default=[], metavar="PEER",
                        help="leave out a peer, for instance one that lacks the type")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--regime", default="burst,sustained")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="also write everything to this file")
    options = parser.parse_args()
    options.sizes = {k: int(v) for k, v in (item.split("=", 1) for item in options.size)}
    return options


def checked(peers, kernel, args, first, launch):
    """Launches once, with all tensors as they were at first, and lets the peers file judge; returns error
    and limit, or None."""
    for name, tensor in first.items():
        args[name].copy_(tensor)
    launch()
    torch.cuda.synchronize()
    if not hasattr(peers, "check"):
        return None
    error, limit = peers.check(args)
    if not error <= limit:
        raise WrongResult(f"{kernel.name}: error {error:.3e}, limit {limit:.1e}")
    return {"error": error, "limit": limit}


class WrongResult(Exception):
    """A kernel's result is wrong."""


def contenders(peers, sizes, without=()):
    """The peers' callables by name."""
    every = peers.PEERS(sizes) if callable(peers.PEERS) else peers.PEERS
    return {name: function for name, function in every.items() if name not in without}


def compare(kernels, peers, sizes, options):
    """Checks the kernels once and measures them beside the peers; returns the report. The first kernel is
    what the others' ratios refer to. `options`: seed, without, regime, rounds."""
    torch.manual_seed(options.seed)
    sets = [peers.make(sizes)]
    sets += [peers.make(sizes) for _ in range(rotations(sets[0]) - 1)]
    launches = [[kernel.prepare(args) for args in sets] for kernel in kernels]
    written = {a["name"] for k in kernels for a in k.manifest["arguments"] if a.get("written")}
    first = {name: sets[0][name].clone() for name in written}
    checks = [checked(peers, kernel, sets[0], first, own[0]) for kernel, own in zip(kernels, launches)]
    bind = lambda function: [lambda args=args: function(args) for args in sets]
    lanes = [Lane(kernel.name, own) for kernel, own in zip(kernels, launches)]
    for name, function in contenders(peers, sizes, options.without).items():
        lanes += lane_of(name, bind(function))
    work = peers.work(sizes) if hasattr(peers, "work") else (0, 0)
    rng, rows = random.Random(options.seed), []
    for regime in options.regime.split(","):
        measure(lanes, regime, options.rounds, rng)
        rows += [row(lane, lanes[0], regime, work) for lane in lanes]
    return {"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "time": int(time.time()),
            "sizes": sizes, "rotations": len(sets), "check": checks[0], "checks": checks, "rows": rows}


def main():
    """Checks, measures, prints."""
    options = parse()
    torch.zeros(1, device="cuda")
    peers = load_peers(options.peers)
    kernels = [Kernel(options.cubin, options.manifest)]
    kernels += [Kernel(f"{stem}.cubin", f"{stem}.json") for stem in options.also]
    try:
        report = compare(kernels, peers, options.sizes, options)
    except WrongResult as wrong:
        sys.exit(f"WRONG: {wrong}")
    show(report)
    if hasattr(peers, "summary"):
        print(peers.summary(report["rows"], options.sizes))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


def show(report):
    """A short table, then one line of JSON."""
    print(f"{report['device']}, torch {report['torch']}, {report['sizes']}, "
          f"{report['rotations']} sets of buffers, check: {report['check']}")
    print(f"{'contender':24} {'regime':10} {'us':>10} {'TFLOP/s':>8} {'GB/s':>8} "
          f"{'ours is':>8} {'spread':>7}")
    for r in report["rows"]:
        print(f"{r['contender']:24} {r['regime']:10} {r['us']:10.2f} {r['tflops']:8.1f} "
              f"{r['gbs']:8.1f} {r['ratio']:7.3f}x {r['spread']:6.1%}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
