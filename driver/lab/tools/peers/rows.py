"""Peers of the row-wise kernels: PyTorch, eager and compiled, and a device copy of as many bytes.

    side_by_side.py --cubin softmax.cubin --manifest softmax.json --peers peers/rows.py \\
        --size m=8192 --size n=4096 --size op=0

op: 0 softmax (softmax_long, softmax_warp_specialized with longer rows), 1 rms_norm, 2 layer_norm (layer_norm_warp_specialized), 3 transpose, 4 axpy (m = 1),
5 gemv, 6 cumsum, 7 gather_rows (rows of p elements, --size p=4096), 8 row_max, 9 row_sum
"""

import torch
import torch.nn.functional as F

HALF, FLOAT = torch.float16, torch.float32
# The operation, the type of its operands, and bytes that it moves for each element.
OPS = (
    (lambda t: F.softmax(t["x"], 1), HALF, 4),
    (lambda t: F.rms_norm(t["x"], t["x"].shape[1:], t["w"], t["eps"]), HALF, 4),
    (lambda t: F.layer_norm(t["x"], t["x"].shape[1:], t["w"], t["b"], t["eps"]), HALF, 4),
    (lambda t: t["x"].t().contiguous(), HALF, 4),
    (lambda t: torch.add(t["y0"], t["x"], alpha=t["alpha"]), FLOAT, 12),
    (lambda t: t["a"] @ t["x"], HALF, 2),
    (lambda t: torch.cumsum(t["x"], 1), FLOAT, 8),
    (lambda t: torch.gather(t["x"], 1, t["at"]), HALF, 6),
    (lambda t: torch.amax(t["x"], 1), FLOAT, 4),
    (lambda t: torch.sum(t["x"], 1), FLOAT, 4),
)
TRANSPOSE, AXPY, GEMV, GATHER, REDUCTIONS = 3, 4, 5, 7, 8
COMPILED = {}


def make(sizes):
    """Arguments by name."""
    m, n, op = sizes["m"], sizes["n"], sizes["op"]
    p, dtype = sizes.get("p", n), OPS[op][1]
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)
    made = dict(eps=1e-5, alpha=0.5, m=m, n=n, p=p, op=op)
    made |= {"w": random(n), "b": random(n)} if op < TRANSPOSE else {}
    if op == AXPY:
        y = random(n)
        return dict(made, x=random(n), y=y, y0=y.clone(), to=torch.empty_like(y))
    if op == GEMV:
        a = random(m, n)
        return dict(made, a=a, x=random(n), y=torch.full((m,), float("nan"), device="cuda"),
                    to=torch.empty_like(a[: m // 2]))
    x = random(m, n)
    if op >= REDUCTIONS:
        return dict(made, x=x, y=torch.full((m,), float("nan"), device="cuda"), to=torch.empty_like(x[: m // 2]))
    if op == GATHER:
        at = torch.randint(0, n, (m, p), device="cuda")
        made |= {"index": at.int(), "at": at}
    shape = (n, m) if op == TRANSPOSE else (m, p)
    y = torch.full(shape, float("nan"), device="cuda", dtype=dtype)
    return dict(made, x=x, y=y, to=torch.empty_like(x))


def copy(t):
    """A device copy of as many bytes as the operation reads and writes (axpy and gather_rows: two thirds)."""
    source = t["a"] if "a" in t else t["x"]
    source = source[: len(t["to"])] if t["op"] in (GEMV, REDUCTIONS, REDUCTIONS + 1) else source
    return t["to"].copy_(source)


def compiled(t):
    """The operation through the compiler of PyTorch."""
    op = t["op"]
    if op not in COMPILED:
        COMPILED[op] = torch.compile(lambda tensors, numbers: OPS[op][0](dict(tensors, **numbers)))
    wanted = ("x", "w", "b", "a", "y0", "at")
    return COMPILED[op]({k: t[k] for k in wanted if k in t}, {k: t[k] for k in ("eps", "alpha")})


PEERS = {"copy": copy, "eager": lambda t: OPS[t["op"]][0](t), "compiled": compiled}


def check(t):
    """Relative error against f64."""
    wide = {k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in t.items()}
    ref = OPS[t["op"]][0](wide)
    return ((t["y"].double() - ref).norm() / ref.norm()).item(), 1e-3


def work(sizes):
    """Bytes read and written: of each element; of a gather, of the row, the indices and the result."""
    m, n, op = sizes["m"], sizes["n"], sizes["op"]
    if op == GATHER:
        return 0, m * (2 * n + 6 * sizes.get("p", n))
    return 0, OPS[op][2] * (n if op == AXPY else m * n)
