"""Peers of the library's other kernels: what PyTorch, cuBLAS, cuDNN and FlashAttention-3 have for the same work.

`op`, a word in tables/library.json, chooses the work; each is a class below, with what it makes, its peers and its reference.
"""

import math
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import index_arrays  # noqa: E402  pylint: disable=wrong-import-position

HALF, FLOAT, INT = torch.float16, torch.float32, torch.int32
BLOCK = 128
KNOWN = {}
COMPILED = {}
torch.backends.cudnn.benchmark = True


def attention():
    """The interface of FlashAttention-3: its own, or that of the wheel `fa3-fwd`."""
    try:
        import flash_attn_interface as interface
    except ImportError:
        import fa3_fwd_interface as interface
    return interface


def normal(*shape, dtype=HALF, scale=1.0):
    """Normal data."""
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def poison(*shape, dtype=HALF):
    """What no kernel may leave."""
    return torch.full(shape, float("nan") if dtype.is_floating_point else -1, device="cuda", dtype=dtype)


def numbers(values, dtype=INT):
    """A list on the device."""
    return torch.tensor(values, device="cuda", dtype=dtype)


def wide(t, *names):
    """The same tensors in bf16, for peers that lack f16; made once."""
    for name in names:
        if f"{name}_bf16" not in t:
            t[f"{name}_bf16"] = t[name].to(torch.bfloat16)
    return [t[f"{name}_bf16"] for name in names]


def error(own, reference):
    """Relative error in norm."""
    return ((own.double() - reference).norm() / reference.norm()).item()


def compiled(name, function):
    """A function through PyTorch's compiler, compiled once."""
    if name not in COMPILED:
        COMPILED[name] = torch.compile(function, dynamic=False)
    return COMPILED[name]


def known(work):
    """Registers the work of an `op`."""
    KNOWN[work.__name__.lower()] = work
    return work


def softmax_product(q, k, v, scale):
    """Attention of [heads, rows, dim] in f64."""
    return torch.softmax(q.double() @ k.double().transpose(-1, -2) * scale, -1) @ v.double()


@known
class Convolution:
    """cuDNN through PyTorch: 3 x 3, a border of one pixel, channels last."""
    limit = 1e-3

    @staticmethod
    def make(s):
        x, w = normal(s["images"], s["height"], s["width"], s["c"]), normal(s["f"], 9, s["c"])
        o = poison(s["images"], s["height"], s["width"], s["f"])
        return dict(x=x, w=w, o=o, image=x.permute(0, 3, 1, 2), taps=w.view(s["f"], 3, 3, s["c"]).permute(0, 3, 1, 2))

    peers = {"cuDNN": lambda t: F.conv2d(t["image"], t["taps"], padding=1)}

    @staticmethod
    def error(t):
        ref = F.conv2d(t["image"][:1].double(), t["taps"].double(), padding=1)
        return error(t["o"][:1].permute(0, 3, 1, 2), ref)


@known
class Gqa:
    """FlashAttention-3 with four query heads a key head."""
    limit = 6e-3

    @staticmethod
    def make(s):
        b, h, n, d = s["batch"], s["heads"], s["length"], 128
        q = normal(b, n, h * 4, d, dtype=torch.bfloat16)
        k, v = (normal(b, n, h, d, dtype=torch.bfloat16) for _ in range(2))
        return dict(q=q, k=k, v=v, o=poison(b, n, h * 4, d, dtype=torch.bfloat16), lse=poison(b, n, h * 4, dtype=FLOAT),
                    queries=n, keys=n, scale=math.log2(math.e) / math.sqrt(d))

    peers = {"FlashAttention-3": lambda t: attention().flash_attn_func(t["q"], t["k"], t["v"])}

    @staticmethod
    def error(t):
        ref = softmax_product(t["q"][0, :, 1], t["k"][0, :, 0], t["v"][0, :, 0], 1 / math.sqrt(128))
        return error(t["o"][0, :, 1], ref)


@known
class Decode:
    """FlashAttention-3 over a cache: one query a head."""
    limit = 3e-3

    @staticmethod
    def make(s):
        b, h, g, n, d = s["batch"], s["kv_heads"], s["group"], s["keys"], 128
        q, o = normal(b, h, g, d), poison(b, h, g, d)
        k, v = (normal(b, n, h, d) for _ in range(2))
        return dict(q=q, k=k, v=v, o=o, lse=poison(b, h, g, dtype=FLOAT), rows=q.view(b, 1, h * g, d),
                    scale=math.log2(math.e) / math.sqrt(d))

    peers = {
        "FlashAttention-3, bf16": lambda t: attention().flash_attn_with_kvcache(
            *wide(t, "rows", "k", "v")),
    }

    @staticmethod
    def error(t):
        ref = softmax_product(t["q"][0, 0], t["k"][0, :, 0], t["v"][0, :, 0], 1 / math.sqrt(128))
        return error(t["o"][0, 0], ref)


@known
class Varlen:
    """FlashAttention-3 over sequences of several lengths."""
    limit = 3e-3

    @staticmethod
    def make(s):
        h, d = s["heads"], 128
        sizes, arrays = index_arrays.varlen(s)
        q, k, v = (normal(sizes["rows_q"], h, d) for _ in range(3))
        return dict(q=q, k=k, v=v, o=poison(sizes["rows_q"], h, d), scale=math.log2(math.e) / math.sqrt(d), **sizes,
                    **{name: numbers(values) for name, values in arrays.items()})

    peers = {"FlashAttention-3, bf16": lambda t: attention().flash_attn_varlen_func(
        *wide(t, "q", "k", "v"), t["starts_q"], t["starts_k"], t["most"], t["most"])}

    @staticmethod
    def error(t):
        n = int(t["starts_q"][1])
        ref = softmax_product(t["q"][:n, 0], t["k"][:n, 0], t["v"][:n, 0], 1 / math.sqrt(128))
        return error(t["o"][:n, 0], ref)


@known
class Paged:
    """FlashAttention-3 over a paged cache."""
    limit = 3e-3

    @staticmethod
    def make(s):
        b, n, h, kv, page, d = s["batch"], s["queries"], s["heads"], s["kv_heads"], s["page"], 128
        most = s["length"] // page
        pages = b * most
        k, v = (normal(pages, page, kv, d) for _ in range(2))
        table = torch.randperm(pages, device="cuda").view(b, most).to(INT)
        return dict(q=normal(b, n, h, d), k=k, v=v, o=poison(b, n, h, d), table=table, lengths=numbers([s["length"]] * b),
                    pages=pages, most=most, scale=math.log2(math.e) / math.sqrt(d))

    peers = {"FlashAttention-3, bf16": lambda t: attention().flash_attn_with_kvcache(
        *wide(t, "q", "k", "v"), cache_seqlens=t["lengths"], page_table=t["table"])}

    @staticmethod
    def error(t):
        k, v = (t[n][t["table"][0].long()].flatten(0, 1)[:, 0] for n in "kv")
        return error(t["o"][0, :, 0], softmax_product(t["q"][0, :, 0], k, v, 1 / math.sqrt(128)))


@known
class DecodePaged:
    """FlashAttention-3 over a paged cache: one query a head."""
    limit = 3e-3

    @staticmethod
    def make(s):
        b, h, g, page, d = s["batch"], s["kv_heads"], s["group"], s["page"], 128
        most = -(-s["keys"] // page)
        pages = b * most
        q, o = normal(b, h, g, d), poison(b, h, g, d)
        k, v = (normal(pages, page, h, d) for _ in range(2))
        table = torch.randperm(pages, device="cuda").view(b, most).to(INT)
        return dict(q=q, k=k, v=v, o=o, lse=poison(b, h, g, dtype=FLOAT), rows=q.view(b, 1, h * g, d), table=table,
                    lengths=numbers([s["keys"]] * b), pages=pages, most=most, scale=math.log2(math.e) / math.sqrt(d))

    peers = {"FlashAttention-3, bf16": lambda t: attention().flash_attn_with_kvcache(
        *wide(t, "rows", "k", "v"), cache_seqlens=t["lengths"], page_table=t["table"])}

    @staticmethod
    def error(t):
        n = int(t["lengths"][0])
        k, v = (t[name][t["table"][0].long()].flatten(0, 1)[:n, 0] for name in "kv")
        return error(t["o"][0, 0], softmax_product(t["q"][0, 0], k, v, 1 / math.sqrt(128)))


def lists(starts, rows=128):
    """What the kernels and the peer know of groups that start there: tiles of so many rows, offsets and ends."""
    sizes, arrays = index_arrays.lists(starts, rows)
    return dict(sizes, ends=numbers(starts[1:]), **{name: numbers(values) for name, values in arrays.items()})


def grouped(t):
    """PyTorch's grouped product, in bf16."""
    a, b = wide(t, "a", "b")
    return torch._grouped_mm(a, b.transpose(1, 2), offs=t["ends"])  # pylint: disable=protected-access


@known
class Grouped:
    """PyTorch's grouped product."""
    limit = 1e-3

    @staticmethod
    def make(s):
        return dict(a=normal(s["rows"], s["k"]), b=normal(s["groups"], s["n"], s["k"]), c=poison(s["rows"], s["n"]),
                    **lists(index_arrays.groups(s["groups"], s["rows"])))

    peers = {"PyTorch, bf16": grouped}

    @staticmethod
    def error(t):
        low, high = int(t["offsets"][1]), int(t["offsets"][2])
        return error(t["c"][low:high], t["a"][low:high].double() @ t["b"][1].double().t())


@known
class Moe:
    """PyTorch: rows of the tokens gathered, a grouped product, rows scattered."""
    limit = 1e-3

    @staticmethod
    def make(s):
        count = s["tokens"] * s["top"]
        order = torch.randperm(count, device="cuda")
        token = order // s["top"]
        return dict(a=normal(s["tokens"], s["k"]), b=normal(s["experts"], s["n"], s["k"]), c=poison(count, s["n"]),
                    weights=torch.rand(count, device="cuda"), order=order.to(INT), place=order, token=token,
                    to=poison(count, s["n"]).view(torch.bfloat16), **lists(index_arrays.groups(s["experts"], count)))

    @staticmethod
    def routed(t):
        """Gather, product, scale, scatter."""
        a, b = wide(t, "a", "b")
        rows = dict(a_bf16=a[t["token"]], b_bf16=b, ends=t["ends"])
        return t["to"].index_copy_(0, t["place"], grouped(rows) * t["weights"][t["place"], None].bfloat16())

    @staticmethod
    def error(t):
        low, high = int(t["offsets"][1]), int(t["offsets"][2])
        ref = t["a"][t["token"][low:high]].double() @ t["b"][1].double().t()
        at = t["place"][low:high]
        return error(t["c"][at], ref * t["weights"][at, None])


Moe.peers = {"PyTorch, bf16": Moe.routed}


@known
class Moe4:
    """PyTorch in bf16 with weights of 16 bits: rows of the tokens gathered, a grouped product, rows scattered."""
    limit = 2e-3
    group = 128

    @classmethod
    def make(cls, s):
        tokens, top, experts, n, k = (s[name] for name in ("tokens", "top", "experts", "n", "k"))
        ids = torch.stack([torch.randperm(experts, device="cuda")[:top] for _ in range(tokens)]).flatten()
        order = torch.argsort(ids, stable=True)
        starts = [0, *torch.bincount(ids, minlength=experts).cumsum(0).tolist()]
        b = torch.randint(0, 256, (experts, n, k // 2), device="cuda", dtype=torch.uint8)
        scales = (torch.rand(experts, k // cls.group, n, device="cuda") * 0.02 + 0.01).to(HALF)
        return dict(a=normal(tokens, k), b=b, s=scales, c=poison(tokens * top, n), order=order.to(INT), place=order,
                    weights=torch.rand(tokens * top, device="cuda"), token=order // top, **lists(starts, 16),
                    to=poison(tokens * top, n).view(torch.bfloat16), b_bf16=cls.weights(b, scales))

    @classmethod
    def weights(cls, b, scales):
        """The weights of 16 bits, expert by expert."""
        whole = torch.empty(b.shape[0], b.shape[1], 2 * b.shape[2], device="cuda", dtype=torch.bfloat16)
        for e, (packed, scale) in enumerate(zip(b, scales)):
            each = torch.stack([packed & 15, packed >> 4], -1).flatten(1).to(HALF) - 8
            whole[e] = each * scale.t().repeat_interleave(cls.group, 1)
        return whole

    peers = {"PyTorch, bf16": Moe.routed}

    @staticmethod
    def error(t):
        e = int(t["group"][0])
        low, high = int(t["offsets"][e]), int(t["offsets"][e + 1])
        ref = t["a"][t["token"][low:high]].double() @ t["b_bf16"][e].double().t()
        at = t["place"][low:high]
        return error(t["c"][at], ref * t["weights"][at, None])


def block_products():
    """DeepGEMM's product with scales of blocks, where it is installed."""
    try:
        import deep_gemm
    except ImportError:
        return {}
    return {"DeepGEMM": lambda t: deep_gemm.fp8_gemm_nt((t["a"], t["sa"].t()), (t["b"], t["sb"]), t["d"])}


@known
class Blocks:
    """cuBLASLt's product with scales of blocks, through PyTorch, and DeepGEMM's."""
    limit = 4e-3

    @staticmethod
    def make(s):
        m, n, k = s["m"], s["n"], s["k"]
        a, b = (normal(rows, k, dtype=torch.float8_e4m3fn) for rows in (m, n))
        sa = torch.rand(k // BLOCK, m, device="cuda") + 0.5
        sb = torch.rand(n // BLOCK, k // BLOCK, device="cuda") + 0.5
        c, d = (poison(m, n, dtype=torch.bfloat16) for _ in range(2))
        return dict(a=a, b=b, sa=sa, sb=sb, c=c, d=d)

    peers = {"cuBLASLt": lambda t: torch._scaled_mm(  # pylint: disable=protected-access
        t["a"], t["b"].t(), scale_a=t["sa"].t(), scale_b=t["sb"].t(), out_dtype=torch.bfloat16), **block_products()}

    @staticmethod
    def error(t):
        a = t["a"][:BLOCK].double() * t["sa"].t()[:BLOCK].double().repeat_interleave(BLOCK, 1)
        b = t["b"].double() * t["sb"].double().repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        return error(t["c"][:BLOCK], a @ b.t())


@known
class Moe8:
    """PyTorch in bf16: rows of the tokens gathered, a grouped product, rows scattered."""
    limit = 5e-3

    @staticmethod
    def make(s):
        tokens, experts, n, k = (s[name] for name in ("tokens", "experts", "n", "k"))
        count = tokens * s["top"]
        order = torch.randperm(count, device="cuda")
        a, b = normal(tokens, k, dtype=torch.float8_e4m3fn), normal(experts, n, k, dtype=torch.float8_e4m3fn)
        sa = torch.rand(k // BLOCK, tokens, device="cuda") + 0.5
        sb = torch.rand(experts, n // BLOCK, k // BLOCK, device="cuda") + 0.5
        starts = index_arrays.groups(experts, count)
        spread = sb.bfloat16().repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)
        return dict(a=a, b=b, sa=sa, sb=sb, c=poison(count, n, dtype=torch.bfloat16), weights=torch.rand(count, device="cuda"),
                    order=order.to(INT), place=order, token=order // s["top"], **lists(starts), to=poison(count, n, dtype=torch.bfloat16), b_bf16=b.bfloat16() * spread,
                    a_bf16=a.bfloat16() * sa.t().bfloat16().repeat_interleave(BLOCK, 1))

    peers = {"PyTorch, bf16": Moe.routed}

    @staticmethod
    def error(t):
        low, high = int(t["offsets"][1]), int(t["offsets"][2])
        of = t["token"][low:high]
        a = t["a"][of].double() * t["sa"].t()[of].double().repeat_interleave(BLOCK, 1)
        b = t["b"][1].double() * t["sb"][1].double().repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        at = t["place"][low:high]
        return error(t["c"][at], (a @ b.t()) * t["weights"][at, None])


@known
class Bytes:
    """cuBLASLt's product of bytes, then PyTorch's compiler."""
    limit = 1e-3

    @staticmethod
    def make(s):
        m, n, k = s["m"], s["n"], s["k"]
        a, b = (torch.randint(-8, 8, (rows, k), device="cuda", dtype=torch.int8) for rows in (m, n))
        return dict(a=a, b=b, rows=torch.rand(m, device="cuda") * 0.01, columns=torch.rand(n, device="cuda"), c=poison(m, n))

    @staticmethod
    def error(t):
        ref = t["a"][:BLOCK].double() @ t["b"].double().t()
        return error(t["c"][:BLOCK], ref * t["rows"][:BLOCK, None].double() * t["columns"].double())


Bytes.peers = {"PyTorch": lambda t: compiled("bytes", lambda a, b, r, c: (torch._int_mm(a, b.t()).float() * r[:, None] * c).half())(
    t["a"], t["b"], t["rows"], t["columns"])}


class Product:
    """A product with an epilogue through PyTorch's compiler, and the plain product of cuBLASLt."""
    limit = 1e-3

    @classmethod
    def make(cls, s):
        m, n, k = s["m"], s["n"], s["k"]
        scale = k ** -0.25
        return dict(a=normal(m, k, scale=scale), b=normal(n, k, scale=scale), c=poison(m, n))

    @classmethod
    def peers_of(cls):
        """The whole by the compiler, and the product alone."""
        return {"compiled": lambda t: compiled(cls.__name__, cls.whole)(*cls.inputs(t)),
                "product alone": lambda t: torch.mm(t["a"], t["b"].t())}

    @classmethod
    def inputs(cls, t):
        """Operands of `whole`."""
        return t["a"], t["b"]

    @classmethod
    def error(cls, t):
        a, *rest = cls.inputs(t)
        return error(t["c"], cls.whole(a.double(), *(x.double() for x in rest)))


@known
class Silu(Product):
    """silu(A B^T)."""
    whole = staticmethod(lambda a, b: F.silu(a @ b.t()))


@known
class Residual(Product):
    """relu(A B^T + bias) + residual."""
    whole = staticmethod(lambda a, b, bias, old: F.relu(a @ b.t() + bias) + old)

    @classmethod
    def make(cls, s):
        return dict(super().make(s), bias=normal(s["n"]), residual=normal(s["m"], s["n"]))

    @classmethod
    def inputs(cls, t):
        return t["a"], t["b"], t["bias"], t["residual"]


@known
class Sums(Product):
    """A B^T, and the sums of A's rows."""
    whole = staticmethod(lambda a, b: (a @ b.t(), a.sum(1, dtype=FLOAT)))

    @classmethod
    def make(cls, s):
        return dict(super().make(s), r=poison(s["m"], dtype=FLOAT))

    @classmethod
    def error(cls, t):
        product = error(t["c"], t["a"].double() @ t["b"].double().t())
        return max(product, error(t["r"], t["a"].double().sum(1)))


@known
class Gated(Product):
    """silu(X G^T) * (X U^T)."""
    whole = staticmethod(lambda x, g, u: F.silu(x @ g.t()) * (x @ u.t()))

    @classmethod
    def make(cls, s):
        made = super().make(s)
        return dict(x=made["a"], g=made["b"], u=normal(s["n"], s["k"], scale=s["k"] ** -0.25), h=made["c"], **made)

    @classmethod
    def inputs(cls, t):
        return t["x"], t["g"], t["u"]


@known
class Batched:
    """cuBLAS through PyTorch."""
    limit = 1e-3

    @staticmethod
    def make(s):
        b, m, n, k = s["batch"], s["m"], s["n"], s["k"]
        return dict(a=normal(b, m, k), b=normal(b, n, k), c=poison(b, m, n), out=poison(b, m, n))

    peers = {"cuBLAS": lambda t: torch.bmm(t["a"], t["b"].transpose(1, 2), out=t["out"])}

    @staticmethod
    def error(t):
        return error(t["c"][-1], t["a"][-1].double() @ t["b"][-1].double().t())


@known
class Embedding:
    """PyTorch."""
    limit = 0.0

    @staticmethod
    def make(s):
        table, ids = normal(s["v"], s["n"]), torch.randint(0, s["v"], (s["m"],), device="cuda")
        return dict(table=table, ids=ids, y=poison(s["m"], s["n"]))

    peers = {"PyTorch": lambda t: F.embedding(t["ids"], t["table"])}

    @staticmethod
    def error(t):
        return error(t["y"], t["table"][t["ids"]].double())


@known
class Histogram:
    """PyTorch's bincount."""
    limit = 0.0

    @staticmethod
    def make(s):
        x = torch.randint(0, s["bins"], (s["n"],), device="cuda", dtype=INT)
        return dict(x=x, counts=torch.zeros(s["bins"], device="cuda", dtype=INT))

    peers = {"PyTorch": lambda t: torch.bincount(t["x"], minlength=len(t["counts"]))}

    @staticmethod
    def error(t):
        return error(t["counts"], torch.bincount(t["x"], minlength=len(t["counts"])).double())


@known
class Spmv:
    """cuSPARSE through PyTorch: 16 to 48 elements a row."""
    limit = 1e-5

    @staticmethod
    def make(s):
        m, n = s["m"], s["n"]
        counts = torch.randint(16, 49, (m,), device="cuda")
        starts = F.pad(counts.cumsum(0), (1, 0)).to(INT)
        total = int(starts[-1])
        columns = torch.randint(0, n, (total,), device="cuda", dtype=INT)
        values, x = normal(total, dtype=FLOAT), normal(n, dtype=FLOAT)
        return dict(values=values, columns=columns, starts=starts, x=x, y=poison(m, dtype=FLOAT), count=total,
                    sparse=torch.sparse_csr_tensor(starts, columns, values, (m, n)))

    peers = {"cuSPARSE": lambda t: torch.mv(t["sparse"], t["x"])}

    @staticmethod
    def error(t):
        exact = torch.sparse_csr_tensor(t["starts"], t["columns"], t["values"].double(), t["sparse"].shape)
        return error(t["y"], torch.mv(exact, t["x"].double()))


def make(sizes):
    """One set of buffers: every argument of the kernel by its name, and what the peers need."""
    return {**{k: v for k, v in sizes.items() if k != "op"}, **KNOWN[sizes["op"]].make(sizes), "op": sizes["op"]}


def PEERS(sizes):  # noqa: N802  pylint: disable=invalid-name
    """The peers of the work."""
    work = KNOWN[sizes["op"]]
    return work.peers_of() if hasattr(work, "peers_of") else work.peers


def check(t):
    """Error against f64, and its limit."""
    work = KNOWN[t["op"]]
    return work.error(t), work.limit
