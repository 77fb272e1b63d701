#!/usr/bin/env python3
"""Measures a family of kernels, row by row, and prints the table.

    table.py build gemm --warplift target/release/warplift --artifacts DIR     # compiles what its rows name
    table.py run gemm --artifacts DIR --out DIR [--limit 540] [--rounds 3]     # on the machine with the GPU
    table.py show DIR/gemm.jsonl                                               # prints Markdown

tables/FAMILY.json names the peers file, the kernels (how each one is compiled) and the rows (a kernel and its
sizes). `run` appends one line of JSON for each row to DIR/FAMILY.jsonl as soon as it is measured: an interrupted run
keeps what it has, and goes on where it stopped. `--limit` seconds after its start it begins no further row.
"""

import argparse
import concurrent.futures
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
KERNELS = HERE.parent.parent / "kernels"


def family(name):
    """The table's description."""
    with open(HERE / "tables" / f"{name}.json", encoding="utf-8") as file:
        return json.load(file)


def rows(table):
    """Each row's kernel and sizes: a group's kernels with each of its sizes."""
    for group in table["rows"]:
        names = group["names"]
        for kernel, values in itertools.product(group["kernels"], group["sizes"]):
            yield kernel, dict(zip(names, values)) | group.get("also", {}) | table["kernels"][kernel].get("sizes", {})


# --- build ---------------------------------------------------------------------------------------

def source(name, kernel, folder):
    """The text to compile: a kernel of the library, with some of its words replaced where the table says so."""
    if "replace" not in kernel:
        return kernel["source"]
    text = (KERNELS / f"{kernel['source']}.tile").read_text(encoding="utf-8")
    for old, new in kernel["replace"].items():
        if old not in text:
            raise ValueError(f"`{kernel['source']}` has no `{old}` to replace")
        text = text.replace(old, new)
    path = pathlib.Path(folder) / f"{name}.tile"
    path.write_text(text, encoding="utf-8")
    return str(path)


def build(options):
    """Compiles and assembles every kernel of the table."""
    table = family(options.family)

    def one(item):
        name, kernel = item
        command = [options.warplift, "compile", source(name, kernel, folder), *kernel.get("options", [])]
        command += ["--save", options.artifacts, "--as", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return name, done.returncode, done.stderr

    failed = False
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        for name, code, text in pool.map(one, table["kernels"].items()):
            failed |= code != 0
            print(f"{name}: {'compiled' if code == 0 else text.strip()}")
    sys.exit(1 if failed else 0)


# --- run -----------------------------------------------------------------------------------------

def measured(path):
    """Rows that a former run has left."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def one_row(side, peers, kernel, sizes, options):
    """Measures a row; a failure is its result."""
    stem = pathlib.Path(options.artifacts) / kernel
    try:
        contender = side.Kernel(f"{stem}.cubin", f"{stem}.json")
        return side.compare([contender], peers, sizes, options)
    except (side.WrongResult, RuntimeError, ValueError, OSError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def run(options):
    """Measures the rows that are not measured yet."""
    import side_by_side as side  # needs PyTorch, which `build` and `show` do without
    import torch

    table, start = family(options.family), time.time()
    path = pathlib.Path(options.out) / f"{options.family}.jsonl"
    torch.zeros(1, device="cuda")
    peers = side.load_peers(HERE / "peers" / table["peers"])
    done = [(r["kernel"], r["sizes"]) for r in measured(path)]
    with open(path, "a", encoding="utf-8") as file:
        for kernel, sizes in rows(table):
            if (kernel, sizes) in done:
                continue
            if time.time() - start > options.limit:
                print(f"stopped after {options.limit} s; the same command goes on")
                break
            report = one_row(side, peers, kernel, sizes, options)
            file.write(json.dumps(dict(report, kernel=kernel, sizes=sizes)) + "\n")
            file.flush()
            torch.cuda.empty_cache()
    print(markdown(measured(path)))


# --- show ----------------------------------------------------------------------------------------

def ratio(report, peer):
    """Burst / sustained ratio of a peer, with a star where it was launched one by one."""
    found = {r["regime"]: r for r in report["rows"] if r["contender"] == peer}
    cells = [f"{found[x]['ratio']:.3f}{'' if found[x]['graph'] else '*'}" if x in found else ""
             for x in ("burst", "sustained")]
    return " / ".join(cells) if found else ""


def line(report, peers):
    """One row of the table."""
    sizes = " ".join(f"{k}={v}" for k, v in report["sizes"].items())
    if "error" in report:
        return f"| {report['kernel']} | {sizes} | {report['error']} |" + " |" * len(peers)
    own = report["rows"][0]["contender"]
    times = [f"{r['us']:.1f}" for r in report["rows"] if r["contender"] == own]
    return f"| {report['kernel']} | {sizes} | {' / '.join(times)} | " + " | ".join(ratio(report, p) for p in peers) + " |"


def markdown(reports):
    """The table: our time in microseconds and the peers' times over ours, each burst / sustained."""
    contenders = [[r["contender"] for r in report.get("rows", [])] for report in reports]
    peers = list(dict.fromkeys(name for names in contenders for name in names[1:] if name != names[0]))
    devices = sorted({r["device"] for r in reports if "device" in r})
    head = [f"{', '.join(devices)}; burst / sustained; * launched one by one", "",
            f"| kernel | sizes | us | {' | '.join(peers)} |", "| --- " * (3 + len(peers)) + "|"]
    return "\n".join(head + [line(report, peers) for report in reports])


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("build", "run"):
        verb = verbs.add_parser(name)
        verb.add_argument("family", choices=sorted(p.stem for p in (HERE / "tables").glob("*.json")))
        verb.add_argument("--artifacts", required=True)
    verbs.choices["build"].add_argument("--warplift", default="warplift")
    verb = verbs.choices["run"]
    verb.add_argument("--out", default=".")
    verb.add_argument("--limit", type=float, default=540)
    verb.add_argument("--rounds", type=int, default=3)
    verb.add_argument("--regime", default="burst,sustained")
    verb.add_argument("--seed", type=int, default=1)
    verb.add_argument("--without", action="append", default=[], metavar="PEER")
    verbs.add_parser("show").add_argument("file", type=pathlib.Path)
    return parser.parse_args()


def main():
    """Runs the verb."""
    options = parse()
    if options.verb == "show":
        print(markdown(measured(options.file)))
    else:
        {"build": build, "run": run}[options.verb](options)


if __name__ == "__main__":
    main()
