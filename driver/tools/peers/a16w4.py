"""Peers of the products with narrow weights: cuBLAS on the same weights in f16.

    side_by_side.py --cubin a16w4.cubin --manifest a16w4.json --peers peers/a16w4.py \\
        --size m=16 --size n=57344 --size k=8192 [--size group=128]
"""

import torch


def make(sizes):
    """Arguments by name; two weights a byte, the lower half first."""
    m, n, k, group = sizes["m"], sizes["n"], sizes["k"], sizes.get("group", 128)
    q = torch.randint(0, 16, (n, k), device="cuda", dtype=torch.uint8)
    x = torch.randn(m, k, device="cuda", dtype=torch.float16)
    s = (torch.rand(k // group, n, device="cuda") * 0.01 + 0.005).half()
    w16 = (q.half() - 8) * s.t().repeat_interleave(group, 1)
    y = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    return dict(x=x, w=q[:, ::2] | (q[:, 1::2] << 4), s=s, y=y, w16=w16, out=torch.empty_like(y), m=m, n=n, k=k)


PEERS = {"cuBLAS f16": lambda t: torch.mm(t["x"], t["w16"].t(), out=t["out"])}


def check(t):
    """Relative error against f32 sums of the first rows."""
    rows = slice(0, 2048)
    ref = t["x"].float() @ t["w16"][rows].float().t()
    return ((t["y"][:, rows].float() - ref).norm() / ref.norm()).item(), 2e-3


def work(sizes):
    """Operations and bytes."""
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    return 2 * m * n * k, n * k // 2 + 2 * (m * k + m * n + n * k // 128)
