"""The index arrays of the library's kernels: whose rows are whose, by the sizes of a row of a table. No PyTorch is needed, so
`table.py predict` gives a prediction the same data as a measurement.

Each function gives sizes of the launch that follow from its arrays, and the arrays by name: integers, or a word of
`--data` for arrays that are random in a measurement too.
"""

import random

SEED = 1


def varlen(s):
    """Sequences of a quarter, a half, three quarters and all of the length, in turn."""
    lengths = [s["length"] * (1 + i % 4) // 4 for i in range(s["sequences"])]
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    tiles_of = [(i, f) for i, n in enumerate(lengths) for f in range(0, n, 128)]
    sizes = dict(tiles=len(tiles_of), rows_q=starts[-1], rows_k=starts[-1], kv_heads=s["heads"], most=max(lengths))
    return sizes, dict(starts_q=starts, starts_k=starts, sequence=[i for i, _ in tiles_of], first=[f for _, f in tiles_of])


def paged(s):
    """Sequences of one length, whose pages lie anywhere."""
    most = -(-s.get("keys", s.get("length")) // s["page"])
    sizes = dict(pages=s["batch"] * most, most=most)
    return sizes, dict(table="perm", lengths=[s.get("keys", s.get("length"))] * s["batch"])


def groups(count, rows):
    """Where groups of unequal rows start."""
    weights = [1 + i % 4 for i in range(count)]
    return [0, *(rows * sum(weights[:i + 1]) // sum(weights) for i in range(count))]


def lists(starts, rows=128):
    """Tiles of so many rows of groups that start there: each one's group, and its first row."""
    of = [(g, f) for g in range(len(starts) - 1) for f in range(starts[g], starts[g + 1], rows)]
    return dict(tiles=len(of)), dict(offsets=starts, group=[g for g, _ in of], first=[f for _, f in of])


def grouped(s):
    """Groups of unequal rows."""
    return lists(groups(s["groups"], s["rows"]))


def moe(s):
    """Tokens of each expert, in any order."""
    sizes, arrays = lists(groups(s["experts"], s["tokens"] * s["top"]))
    return sizes, dict(arrays, order="perm")


def moe4(s):
    """Each token at experts of its own choice, tiles of 16."""
    rng = random.Random(SEED)
    counts = [0] * s["experts"]
    for _ in range(s["tokens"]):
        for e in rng.sample(range(s["experts"]), s["top"]):
            counts[e] += 1
    sizes, arrays = lists([sum(counts[:i]) for i in range(len(counts) + 1)], 16)
    return sizes, dict(arrays, order="perm")


def spmv(s):
    """16 to 48 elements a row."""
    rng, starts = random.Random(SEED), [0]
    for _ in range(s["m"]):
        starts.append(starts[-1] + rng.randrange(16, 49))
    return dict(count=starts[-1]), dict(starts=starts, columns=f"ints:0..{s['n']}")


def embedding(s):
    """Rows anywhere in the table."""
    return {}, dict(ids=f"ints:0..{s['v']}")


KNOWN = dict(varlen=varlen, paged=paged, decodepaged=paged, grouped=grouped, moe=moe, moe4=moe4, moe8=moe, spmv=spmv,
             embedding=embedding)
