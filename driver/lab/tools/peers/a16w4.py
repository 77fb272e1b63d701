"""Peers of the products with narrow weights: cuBLAS on the same weights in f16, humming on the same type
where it is installed (humming-kernels), and launches that only read, where WARPLIFT_READ names a compiled
`read` (peers/read.tile: `warplift compile driver/lab/tools/peers/read.tile --save DIR`; WARPLIFT_READ=DIR/read).

    side_by_side.py --cubin a16w4.cubin --manifest a16w4.json --peers peers/a16w4.py \\
        --size m=16 --size n=57344 --size k=8192 [--size group=128] [--size type=4]

type: 4, 6 or 8 (u4, u6, u8 with zero point 8, 32, 128), 843 (f8e4m3), 632 (f6e3m2). A kernel with zero
points for each group takes them as `z`: f16 by --size zeros=1, u8 by --size zeros=8.
"""

import os

import torch
from side_by_side import Kernel, join

try:
    from humming.layer import HummingLayer
except ImportError:
    HummingLayer = None

TYPES = {4: ("uint4", 4), 6: ("int6", 6), 8: ("int8", 8), 843: ("float8e4m3", 8), 632: ("float6e3m2", 6)}
# Bytes of the launches that only read: those of weights of 4 and of 8 bits.
READS = {"read 243 MB": 243e6, "read 486 MB": 486e6}
ROWS = 1056


def weights(kind, n, k):
    """Codes of the weights and their values before the zero point is taken away."""
    bits = TYPES[kind][1]
    codes = torch.randint(0, 1 << bits, (n, k), device="cuda", dtype=torch.uint8)
    if kind == 843:
        codes &= 0xf7  # no NaN
        return codes, codes.view(torch.float8_e4m3fn).half()
    if kind == 632:
        exponent, mantissa = (codes >> 2 & 7).int(), (codes & 3).half()
        value = torch.where(exponent > 0, (1 + mantissa / 4) * 2.0 ** (exponent - 3).half(), mantissa / 16)
        return codes, torch.where(codes > 31, -value, value).half()
    return codes, codes.half()


def make(sizes):
    """Arguments by name; weights packed with no gaps."""
    m, n, k, group = sizes["m"], sizes["n"], sizes["k"], sizes.get("group", 128)
    kind = sizes.get("type", 4)
    codes, values = weights(kind, n, k)
    x = torch.randn(m, k, device="cuda", dtype=torch.float16)
    s = (torch.rand(k // group, n, device="cuda") * 0.01 + 0.005).half()
    wide = lambda t: t.t().repeat_interleave(group, 1)
    z = torch.randint(0, 16, (k // group, n), device="cuda").to(torch.uint8 if sizes.get("zeros") == 8 else torch.half)
    zero = wide(z.half()) if sizes.get("zeros") else (1 << kind - 1 if kind < 9 else 0)
    w16 = (values - zero) * wide(s)
    y = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    w = join(codes.flatten(), TYPES[kind][1])
    made = dict(x=x, w=w, s=s, z=z, y=y, w16=w16, out=torch.empty_like(y), m=m, n=n, k=k)
    if HummingLayer:
        config = {"dtype": TYPES[kind][0], "group_size": group}
        layer = HummingLayer(shape_n=n, shape_k=k, weight_config=config, torch_dtype=torch.float16).cuda()
        layer.load_from_unquantized(w16.clone())
        layer.transform()
        made["humming"] = layer
    return dict(made, **reads())


def reads():
    """A prepared launch for each of the sizes that are only read."""
    stem = os.environ.get("WARPLIFT_READ")
    if not stem:
        return {}
    kernel = Kernel(f"{stem}.cubin", f"{stem}.json")
    made = {}
    for name, size in READS.items():
        n = int(size) // (4 * ROWS) // 4 * 4
        x = torch.randn(ROWS, n, device="cuda")
        made[name] = kernel.prepare(dict(x=x, y=torch.empty(ROWS, device="cuda"), m=ROWS, n=n))
    return made


PEERS = {"cuBLAS f16": lambda t: torch.mm(t["x"], t["w16"].t(), out=t["out"])}
if HummingLayer:
    PEERS["humming"] = lambda t: t["humming"](t["x"])
if os.environ.get("WARPLIFT_READ"):
    PEERS |= {name: (lambda t, name=name: t[name]()) for name in READS}


def check(t):
    """Relative error against f32 sums of the first rows."""
    rows = slice(0, 2048)
    ref = t["x"].float() @ t["w16"][rows].float().t()
    return ((t["y"][:, rows].float() - ref).norm() / ref.norm()).item(), 2e-3


def work(sizes):
    """Operations and bytes."""
    m, n, k, group = sizes["m"], sizes["n"], sizes["k"], sizes.get("group", 128)
    bits = TYPES[sizes.get("type", 4)][1]
    scales = n * k // group * (2 + {0: 0, 1: 2, 8: 1}[sizes.get("zeros", 0)])
    return 2 * m * n * k, n * k * bits // 8 + scales + 2 * (m * k + m * n)


def summary(rows, sizes):
    """Each contender's share of the read ceiling: launch and bytes over bandwidth, through the two reads."""
    lines = []
    for regime in dict.fromkeys(r["regime"] for r in rows):
        us = {r["contender"]: r["us"] for r in rows if r["regime"] == regime}
        if not set(READS) <= set(us):
            continue
        (a, small), (b, large) = ((us[name], size) for name, size in READS.items())
        slope = (b - a) / (large - small)
        start, least = a - slope * small, a + slope * (work(sizes)[1] - small)
        lines.append(f"{regime}: a read takes {start:.2f} us + bytes / {1e-6 / slope:.3f} TB/s; here {least:.2f} us")
        lines += [f"  {name}: {least / t:.3f} of the ceiling" for name, t in us.items() if name not in READS]
    return "\n".join(lines)
