#!/usr/bin/env python3
"""Measures a family of kernels, row by row, and prints the table.

    table.py build gemm --warplift target/release/warplift --artifacts DIR     # compiles what its rows name
    table.py run gemm --artifacts DIR --out DIR [--limit 540] [--rounds 3]     # on the machine with the GPU
    table.py predict gemm --warplift target/release/warplift --artifacts DIR --out DIR    # needs no GPU
    table.py show DIR/gemm.jsonl [--predicted DIR/gemm.predicted.jsonl] [--without PEER]    # prints Markdown

With `--chosen` the first three take for each row the mapping that `compile --mapping auto --size ..` chooses, in place of the
library's. tables/FAMILY.json names the peers file, the kernels (how each one is compiled) and the rows (a
kernel and its sizes). `run` appends one line of JSON for each row to DIR/FAMILY.jsonl as soon as it is measured: an
interrupted run keeps what it has, and goes on where it stopped. `--limit` seconds after its start it begins no further row.
"""

import argparse
import array
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))
import index_arrays  # noqa: E402  pylint: disable=wrong-import-position

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


def artifact(kernel, sizes, chosen):
    """The name of a row's cubin and manifest."""
    return "-".join([kernel, *(f"{k}{v}" for k, v in sizes.items())]) if chosen else kernel


def arguments(kernel, artifacts):
    """A kernel's arguments, by its manifest."""
    return json.loads((pathlib.Path(artifacts) / f"{kernel}.json").read_text(encoding="utf-8"))["arguments"]


def given(kernel, sizes, folder, artifacts):
    """The sizes that follow from a row's index arrays, and the options that give these: what a measurement has too."""
    more, arrays = index_arrays.KNOWN.get(sizes.get("op"), lambda _: ({}, {}))(sizes)
    options = []
    for name, values in arrays.items():
        if name not in [a["name"] for a in arguments(kernel, artifacts)]:
            continue
        if not isinstance(values, str):
            path = pathlib.Path(folder) / f"{name}.npy"
            path.write_bytes(npy(values))
            values = path
        options += ["--data", f"{name}={values}"]
    return {**more, **sizes}, options


def npy(values):
    """Integers of 32 bits as `numpy.save` writes them."""
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({len(values)},), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + array.array("i", values).tobytes()


def words(table, kernel, sizes, options, folder):
    """How a row's kernel gets its mapping: by its sizes and data, or as the table says."""
    fixed = table["kernels"][kernel].get("fixed", [])
    if options.chosen:
        sizes, data = given(kernel, sizes, folder, options.artifacts)
        return ["--mapping", "auto", "--size", launch(table, kernel, sizes, options.artifacts), *data, *fixed]
    return table["kernels"][kernel].get("options", []) + fixed


def compile_all(options, jobs):
    """Compiles and assembles `(text, words, artifact)`; whether all succeeded."""
    def one(job):
        text, how, name = job
        command = [options.warplift, "compile", text, *how, "--chip", options.chip, "--save", options.artifacts, "--as", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return name, done.returncode, done.stderr

    good = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, code, text in pool.map(one, jobs):
            good &= code == 0
            print(f"{name}: {'compiled' if code == 0 else text.strip()}", flush=True)
    return good


def build(options):
    """Compiles and assembles every kernel of the table, and for `--chosen` once more for every row."""
    table = family(options.family)
    with tempfile.TemporaryDirectory() as folder:
        texts = {name: source(name, kernel, folder) for name, kernel in table["kernels"].items()}
        how = lambda kernel: kernel.get("options", []) + kernel.get("fixed", [])
        jobs = [(text, how(table["kernels"][name]), name) for name, text in texts.items()]
        good = compile_all(options, jobs)
        if options.chosen:
            each = [(kernel, sizes, os.path.join(folder, str(k))) for k, (kernel, sizes) in enumerate(rows(table))]
            for _, _, own in each:
                os.mkdir(own)
            good &= compile_all(options, [(texts[kernel], words(table, kernel, sizes, options, own),
                                           artifact(kernel, sizes, True)) for kernel, sizes, own in each])
    sys.exit(0 if good else 1)


# --- run -----------------------------------------------------------------------------------------

def measured(path):
    """Rows that a former run has left."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def one_row(side, peers, kernel, sizes, options):
    """Measures a row; a failure is its result."""
    stem = pathlib.Path(options.artifacts) / artifact(kernel, sizes, options.chosen)
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


# --- predict -------------------------------------------------------------------------------------

def launch(table, kernel, sizes, artifacts):
    """The sizes of a launch: the manifest's scalar arguments, each a size of the row or what the table says."""
    names = [a["name"] for a in arguments(kernel, artifacts) if not a["type"].startswith("ptr")]
    also = {name: sizes.get(value, value) for name, value in table.get("launch", {}).items()}
    return ",".join(f"{name}={({**also, **sizes})[name]}" for name in names)


def prediction(text):
    """Cycles, the floor's cycles, and the times of both regimes in microseconds, of what `explain` prints."""
    number = r"([\d.]+)"
    found = re.search(rf"predicted: {number} cycles, {number} of the floor \({number} cycles", text)
    times = re.search(rf"{number} us in bursts .*?{number} us sustained", text)
    if not (found and times):
        raise ValueError(f"no prediction in: {text}")
    return {"cycles": float(found[1]), "floor": float(found[3]), "burst": float(times[1]), "sustained": float(times[2])}


def predict(options):
    """Predicts every row, from the data that a measurement has too."""
    table, path = family(options.family), pathlib.Path(options.out) / f"{options.family}.predicted.jsonl"
    with tempfile.TemporaryDirectory() as folder, open(path, "w", encoding="utf-8") as file:
        for name, sizes in rows(table):
            command = [options.warplift, "explain", source(name, table["kernels"][name], folder), "--chip", options.chip]
            command += words(table, name, sizes, options, folder)
            if not options.chosen:
                known, data = given(name, sizes, folder, options.artifacts)
                command += ["--size", launch(table, name, known, options.artifacts), *data]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            file.write(json.dumps(dict(prediction(text), kernel=name, sizes=sizes)) + "\n")


# --- show ----------------------------------------------------------------------------------------

def ratio(report, peer):
    """Burst / sustained ratio of a peer, with a star where it was launched one by one."""
    found = {r["regime"]: r for r in report["rows"] if r["contender"] == peer}
    cells = [f"{found[x]['ratio']:.3f}{'' if found[x]['graph'] else '*'}" if x in found else ""
             for x in ("burst", "sustained")]
    return " / ".join(cells) if found else ""


def line(report, peers, predicted):
    """One row of the table."""
    sizes = " ".join(f"{k}={v}" for k, v in report["sizes"].items())
    if "error" in report:
        return f"| {report['kernel']} | {sizes} | {report['error']} |" + " |" * (len(peers) + bool(predicted))
    own = report["rows"][0]["contender"]
    times = {r["regime"]: r["us"] for r in report["rows"] if r["contender"] == own}
    cells = [" / ".join(f"{us:.1f}" for us in times.values()), *(ratio(report, p) for p in peers)]
    if predicted:
        row = predicted.get(key(report), {})
        cells.append(" / ".join(f"{row[regime] / us:.2f}" for regime, us in times.items() if regime in row))
    return f"| {report['kernel']} | {sizes} | {' | '.join(cells)} |"


def key(report):
    """What a row is known by."""
    return report["kernel"], json.dumps(report["sizes"])


def markdown(reports, predictions=(), without=()):
    """The table: our time in microseconds, the peers' times over ours and the predicted over ours, each burst / sustained."""
    contenders = [[r["contender"] for r in report.get("rows", [])] for report in reports]
    peers = dict.fromkeys(name for names in contenders for name in names[1:] if name != names[0])
    peers = [name for name in peers if name not in without]
    devices = sorted({r["device"] for r in reports if "device" in r})
    predicted = {key(p): p for p in predictions}
    columns = ["kernel", "sizes", "us", *peers] + ["predicted over measured"] * bool(predicted)
    head = [f"{', '.join(devices)}; burst / sustained; * launched one by one", "",
            f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    return "\n".join(head + [line(report, peers, predicted) for report in reports])


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("build", "run", "predict"):
        verb = verbs.add_parser(name)
        verb.add_argument("family", choices=sorted(p.stem for p in (HERE / "tables").glob("*.json")))
        verb.add_argument("--artifacts", required=True)
        verb.add_argument("--chosen", action="store_true", help="the mapping that `auto` chooses for the size of each row")
    for name in ("build", "predict"):
        verbs.choices[name].add_argument("--warplift", default="warplift")
        verbs.choices[name].add_argument("--chip", default="h200", help="the chip for which mappings are chosen and predicted")
    verbs.choices["predict"].add_argument("--out", default=".")
    verb = verbs.choices["run"]
    verb.add_argument("--out", default=".")
    verb.add_argument("--limit", type=float, default=540)
    verb.add_argument("--rounds", type=int, default=3)
    verb.add_argument("--regime", default="burst,sustained")
    verb.add_argument("--seed", type=int, default=1)
    verb.add_argument("--without", action="append", default=[], metavar="PEER")
    verb = verbs.add_parser("show")
    verb.add_argument("file", type=pathlib.Path)
    verb.add_argument("--predicted", type=pathlib.Path)
    verb.add_argument("--without", action="append", default=[], metavar="PEER")
    return parser.parse_args()


def main():
    """Runs the verb."""
    options = parse()
    if options.verb == "show":
        predictions = measured(options.predicted) if options.predicted else ()
        print(markdown(measured(options.file), predictions, options.without))
    else:
        {"build": build, "run": run, "predict": predict}[options.verb](options)


if __name__ == "__main__":
    main()
