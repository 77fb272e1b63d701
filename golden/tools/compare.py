#!/usr/bin/env python3
"""Compares the PTX and the compile time of two builds of Warplift over the kernel library and its variants.

    former checkout + binary ─┐                                 ┌─ equal up to names of registers, labels, comments
                              ├─ a file for each mapping ─ PTX ─┤
    this checkout + binary ───┘                                 └─ different: predicted cycles and registers of both

    golden/tools/compare.py --former DIR BINARY --new DIR BINARY [--instructions] [--only NAME]

Each DIR is a checkout: its library is read from `driver/kernels`, its variants from `golden/src/library.rs`. Kernels are
paired by name (`--renamed OLD=NEW` pairs a kernel that was renamed), mappings by their order in the file.
`--instructions` counts retired instructions of each compile with valgrind, less those of a run that only starts.
The exit status is 1 if any PTX differs.
"""

import argparse
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FIELDS = re.compile(r'name: "(\w+)",\s*kernel: "(\w+)",\s*mapping: "((?:[^"\\]|\\.)*)"', re.S)


def library(checkout):
    """Texts by name: every mapping of every kernel of the library, and the variants."""
    texts, kernels = {}, {}
    for path in sorted((checkout / "driver/kernels").glob("*.tile")):
        head, *mappings = re.split(r"^(?=mapping )", path.read_text(), flags=re.M)
        kernels[path.stem] = head
        for number, mapping in enumerate(mappings):
            texts[f"{path.stem}/{number}"] = head + mapping
    source = (checkout / "golden/src/library.rs").read_text()
    for name, kernel, mapping in FIELDS.findall(source):
        mapping = re.sub(r"\\\n\s*", "", mapping)
        texts[f"variant/{name}"] = f"{kernels[kernel]}\nmapping {kernel} {{ {mapping} }}\n"
    return texts


def normal(ptx):
    """PTX without names of registers, labels, files and comments."""
    ptx = re.sub(r"//[^\n]*", "", ptx)
    ptx = re.sub(r"^\s*\.(loc|file)\b[^\n]*\n", "", ptx, flags=re.M)
    ptx = re.sub(r"%(rd|r|d|p|rs|h|f)\d+", r"%\1", ptx)
    ptx = re.sub(r"\$[\w.]+", "$", ptx)
    ptx = re.sub(r"\.entry \w+", ".entry", ptx)
    ptx = re.sub(r"\b\w+_param_(\w+)", r"param_\1", ptx)
    return "\n".join(line.strip() for line in ptx.splitlines() if line.strip())


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compiled(binary, path):
    """The PTX of a file, or the last line of the refusal."""
    result = run([binary, "compile", path])
    return result.stdout if result.returncode == 0 else "refused: " + result.stderr.strip()


def instructions(binary, arguments):
    """Instructions that a run retires."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary, *arguments]
    found = re.search(r"Collected : (\d+)", run(command).stderr)
    if not found:
        sys.exit("valgrind counted nothing: is it installed?")
    return int(found[1])


def facts(binary, path):
    """What `explain` predicts: cycles and registers."""
    lines = run([binary, "explain", path]).stdout.splitlines()
    return [line.strip() for line in lines if re.search(r"cycles|\d+ of \d+", line)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for side in ("--former", "--new"):
        parser.add_argument(side, nargs=2, metavar=("DIR", "BINARY"), required=True)
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    (old_dir, old), (new_dir, new) = args.former, args.new
    before, after = library(Path(old_dir)), library(Path(new_dir))
    renamed = dict(pair.split("=") for pair in args.renamed)
    different, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in before.items():
            kernel, _, rest = name.partition("/")
            pair = f"{renamed.get(kernel, kernel)}/{rest}"
            if args.only not in name:
                continue
            if pair not in after:
                different.append(name)
                print(f"{name}: gone")
                continue
            paths = [str(Path(folder) / side) for side in ("former.tile", "new.tile")]
            for path, content in zip(paths, (text, after[pair])):
                Path(path).write_text(content)
            results = [compiled(binary, path) for binary, path in zip((old, new), paths)]
            if normal(results[0]) != normal(results[1]):
                different.append(name)
                print(f"{name}: different")
                for side, binary, path in zip(("former", "new"), (old, new), paths):
                    print(f"  {side}: " + "; ".join(facts(binary, path)))
            if args.instructions:
                start = [instructions(binary, ["kernels"]) for binary in (old, new)]
                both = [instructions(b, ["compile", p]) for b, p in zip((old, new), paths)]
                ratio = (both[1] - start[1]) / (both[0] - start[0])
                ratios.append((ratio, name))
                print(f"{name}: {both[0] - start[0]} -> {both[1] - start[1]} instructions, {ratio:.3f}", flush=True)
    print(f"{len(before)} mappings, {len(different)} different")
    if ratios:
        mean = math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))
        print(f"instructions: geometric mean {mean:.3f}, most {max(ratios)[0]:.3f} ({max(ratios)[1]})")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
