"""Peers of products C = A B^T of other types than halves, through PyTorch (cuBLAS).

    warplift compile FILE --save DIR --as gemm        # a text with `f8e4m3` for `f16` and BK = 128, say
    side_by_side.py --cubin gemm.cubin --manifest gemm.json --peers peers/products.py \\
        --size m=4096 --size n=4096 --size k=4096 --size type=8

type: 8 f8e4m3 into f16, 1 i8 into i32, 32 tf32 into f32.
"""

import torch

torch.backends.cuda.matmul.allow_tf32 = True
TYPES = {8: (torch.float8_e4m3fn, torch.float16), 1: (torch.int8, torch.int32), 32: (torch.float32, torch.float32)}


def operand(rows, columns, dtype):
    """Normal data; of bytes small integers."""
    if dtype == torch.int8:
        return torch.randint(-8, 8, (rows, columns), device="cuda", dtype=dtype)
    x = torch.randn(rows, columns, device="cuda")
    # Words of tf32 have 13 bits of zeros.
    return x.to(dtype) if dtype != torch.float32 else (x.view(torch.int32) & ~0x1FFF).view(dtype)


def make(sizes):
    """One set of buffers."""
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    dtype, out = TYPES[sizes["type"]]
    return dict(a=operand(m, k, dtype), b=operand(n, k, dtype), c=torch.empty(m, n, device="cuda", dtype=out),
                out=torch.empty(m, n, device="cuda", dtype=out), one=torch.ones((), device="cuda"), m=m, n=n, k=k)


def library(t):
    """The product by cuBLAS."""
    a, b = t["a"], t["b"].t()
    if a.dtype == torch.int8:
        return torch._int_mm(a, b)
    if a.dtype == torch.float32:
        return torch.mm(a, b, out=t["out"])
    return torch._scaled_mm(a, b, t["one"], t["one"], out_dtype=torch.float16, use_fast_accum=True)


PEERS = {"cuBLAS": library}


def check(t):
    """Relative error against f64 of the first rows; tensor cores keep 13 bits of sums of 8-bit floats."""
    rows = slice(0, 512)
    ref = t["a"][rows].double() @ t["b"].double().t()
    return ((t["c"][rows].double() - ref).norm() / ref.norm()).item(), 5e-3


def work(sizes):
    """Operations and bytes."""
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    dtype, out = TYPES[sizes["type"]]
    return 2 * m * n * k, (m + n) * k * dtype.itemsize + m * n * out.itemsize
