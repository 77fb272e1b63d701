"""Peers of the row-wise kernels in f16: PyTorch, eager and compiled, and a device copy of the same bytes.

    side_by_side.py --cubin softmax.cubin --manifest softmax.json --peers peers/rows.py \\
        --size m=8192 --size n=4096 --size op=0        (0 softmax, 1 rms_norm, 2 layer_norm, 3 transpose)
"""

import torch
import torch.nn.functional as F

OPS = (
    lambda t: F.softmax(t["x"], 1),
    lambda t: F.rms_norm(t["x"], t["x"].shape[1:], t["w"], t["eps"]),
    lambda t: F.layer_norm(t["x"], t["x"].shape[1:], t["w"], t["b"], t["eps"]),
    lambda t: t["x"].t().contiguous(),
)
COMPILED = {}


def make(sizes):
    """Arguments by name."""
    m, n = sizes["m"], sizes["n"]
    x = torch.randn(m, n, device="cuda", dtype=torch.float16)
    y = torch.full((n, m) if sizes["op"] == 3 else (m, n), float("nan"), device="cuda", dtype=x.dtype)
    w, b = (torch.randn(n, device="cuda", dtype=torch.float16) for _ in range(2))
    return dict(x=x, y=y, w=w, b=b, to=torch.empty_like(x), eps=1e-5, m=m, n=n, op=sizes["op"])


def compiled(t):
    """The operation through the compiler of PyTorch."""
    op = t["op"]
    if op not in COMPILED:
        COMPILED[op] = torch.compile(lambda x, w, b, eps: OPS[op](dict(x=x, w=w, b=b, eps=eps)))
    return COMPILED[op](t["x"], t["w"], t["b"], t["eps"])


PEERS = {"copy": lambda t: t["to"].copy_(t["x"]), "eager": lambda t: OPS[t["op"]](t), "compiled": compiled}


def check(t):
    """Relative error against f64."""
    wide = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in t.items()}
    ref = OPS[t["op"]](wide)
    return ((t["y"].double() - ref).norm() / ref.norm()).item(), 1e-3


def work(sizes):
    """Bytes read and written."""
    return 0, 4 * sizes["m"] * sizes["n"]
