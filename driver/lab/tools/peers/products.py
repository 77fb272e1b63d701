"""Peers of products C = A B^T: cuBLASLt, its first proposal and the best of 16.

    warplift compile gemm_e4m3 --save DIR
    side_by_side.py --cubin gemm_e4m3.cubin --manifest gemm_e4m3.json --peers peers/products.py \\
        --size m=4096 --size n=4096 --size k=4096 --size type=8

type: 16 f16 (the default), 17 bf16, 8 f8e4m3 into f16, 1 i8 into i32, 32 tf32 into f32. `columns`: 1 where b is
stored [k, n], 2 where a is stored [k, m], 3 both. `dual`: 1 for a second product D = A E^T. `batch`: so many
products, one behind the other.
"""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cublaslt import Product  # noqa: E402  pylint: disable=wrong-import-position

F16, E4M3 = torch.float16, torch.float8_e4m3fn
TYPES = {16: (F16, F16), 17: (torch.bfloat16, torch.bfloat16), 8: (E4M3, F16), 1: (torch.int8, torch.int32),
         32: (torch.float32, torch.float32)}
B_COLUMNS, A_COLUMNS = 1, 2


def types(sizes):
    """Types of the operands and of the result."""
    return TYPES[sizes.get("type", 16)]


def operand(shape, dtype):
    """Normal data; of bytes small integers."""
    if dtype == torch.int8:
        return torch.randint(-8, 8, shape, device="cuda", dtype=dtype)
    x = torch.randn(shape, device="cuda")
    # Words of tf32 have 13 bits of zeros.
    return x.to(dtype) if dtype != torch.float32 else (x.view(torch.int32) & ~0x1FFF).view(dtype)


def make(sizes):
    """One set of buffers."""
    m, n, k, batch = sizes["m"], sizes["n"], sizes["k"], sizes.get("batch", 1)
    dtype, result = types(sizes)
    columns = sizes.get("columns", 0)
    stored = lambda rows, by_columns: (batch, k, rows) if by_columns else (batch, rows, k)
    a = operand(stored(m, columns & A_COLUMNS), dtype)
    b = operand(stored(n, columns & B_COLUMNS), dtype)
    poison = float("nan") if result.is_floating_point else -1
    empty = lambda: torch.full((batch, m, n), poison, device="cuda", dtype=result)
    made = dict(a=a, b=b, c=empty(), m=m, n=n, k=k, batch=batch, columns=columns)
    by_columns = dict(a_columns=bool(columns & A_COLUMNS), b_columns=bool(columns & B_COLUMNS))
    product = lambda right: Product(a, right, empty(), m, n, k, batch=batch, **by_columns)
    made["peers"] = [product(b)]
    if sizes.get("dual"):
        made |= dict(e=operand(b.shape, dtype), d=empty())
        made["peers"].append(product(made["e"]))
    return made


def first(t):
    """The products by cuBLASLt's first proposal."""
    for product in t["peers"]:
        product.first()


def best(t):
    """The products by the best of its proposals."""
    for product in t["peers"]:
        product.best()


PEERS = {"cuBLASLt": first, "cuBLASLt, best of 16": best}


def error(left, right, result, columns):
    """Relative error of the first rows of the last product against f64."""
    rows = slice(0, 512)
    left, right = left[-1], right[-1]
    left = left[:, rows].t() if columns & A_COLUMNS else left[rows]
    right = right if columns & B_COLUMNS else right.t()
    ref = left.double() @ right.double()
    return ((result[-1][rows].double() - ref).norm() / ref.norm()).item()


def check(t):
    """The larger of our error and the peer's, whose product is thereby known to be the same one. Tensor cores
    keep 13 bits of sums of 8-bit floats."""
    t["peers"][0].best()
    errors = [error(t["a"], t["b"], result, t["columns"]) for result in (t["c"], t["peers"][0].tensors[2])]
    if "e" in t:
        errors.append(error(t["a"], t["e"], t["d"], t["columns"]))
    return max(errors), 5e-3


def work(sizes):
    """Operations and bytes."""
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    dtype, result = types(sizes)
    count, products = sizes.get("batch", 1), 1 + sizes.get("dual", 0)
    size = (m + n * products) * k * dtype.itemsize + m * n * products * result.itemsize
    return count * products * 2 * m * n * k, count * size
