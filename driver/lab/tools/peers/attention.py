"""Peers of the attention kernels: FlashAttention-3 (wheel `fa3-fwd`) and cuDNN through PyTorch.

    side_by_side.py --cubin attention.cubin --manifest attention.json --peers peers/attention.py \\
        --size batch=1 --size heads=16 --size length=16384 --size dim=128 [--size causal=1] [--size half=1]
"""

import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    from flash_attn_interface import flash_attn_func
except ImportError:
    from fa3_fwd_interface import flash_attn_func


def make(sizes):
    """Arguments by name; `t` is [batch, heads, length, dim], as cuDNN likes it best."""
    shape = (sizes["batch"], sizes["length"], sizes["heads"], sizes["dim"])
    dtype = torch.float16 if sizes.get("half") else torch.bfloat16
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(3))
    out = torch.full(shape, float("nan"), device="cuda", dtype=dtype)
    transposed = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    length = sizes["length"]
    return dict(q=q, k=k, v=v, o=out, t=transposed, batch=shape[0], heads=shape[2], length=length,
                queries=length, keys=length, causal=bool(sizes.get("causal")),
                scale=math.log2(math.e) / math.sqrt(sizes["dim"]))


def fa3(t):
    """FlashAttention-3."""
    return flash_attn_func(t["q"], t["k"], t["v"], causal=t["causal"])


def cudnn(t):
    """cuDNN."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(*t["t"], is_causal=t["causal"])


def PEERS(sizes):  # noqa: N802  pylint: disable=invalid-name
    """The peers that know the type: the wheel of FlashAttention-3 is built without f16."""
    return {"cuDNN": cudnn} if sizes.get("half") else {"FlashAttention-3": fa3, "cuDNN": cudnn}


def check(t):
    """Relative error of the first batch's first two heads against f64."""
    q, k, v = (t[n][0, :, :2].double().transpose(0, 1) for n in "qkv")
    worst = 0.0
    for rows in range(0, q.shape[1], 2048):
        s = q[:, rows:rows + 2048] @ k.transpose(1, 2) / math.sqrt(q.shape[2])
        if t["causal"]:
            at = torch.arange(rows, rows + s.shape[1], device="cuda")[:, None]
            s.masked_fill_(torch.arange(k.shape[1], device="cuda")[None] > at, -math.inf)
        ref = torch.softmax(s, 2) @ v
        own = t["o"][0, rows:rows + 2048, :2].double().transpose(0, 1)
        worst = max(worst, ((own - ref).norm() / ref.norm()).item())
    return (worst, 6e-3) if torch.isfinite(t["o"]).all() else (math.inf, 6e-3)


def work(sizes):
    """Operations and bytes."""
    size = sizes["batch"] * sizes["heads"] * sizes["length"] * sizes["dim"]
    return 4 * size * sizes["length"] // (2 if sizes.get("causal") else 1), 8 * size
