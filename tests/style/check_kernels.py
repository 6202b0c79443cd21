#!/usr/bin/env python3
"""The compiled kernels: registers, spilled bytes, static shared memory and the warps that a multiprocessor
can hold, for every kernel and architecture.

    check_kernels.py [BUILD_FOLDER] [--all]    a folder built with DLRM_CUDA=ON

Without a folder it checks build/cuda, or nothing if that was not built.

Reads the output of ptxas, which cmake/keep_ptxas.sh keeps next to the objects. Prints one line a
kernel (worst architecture; --all: each), and exits with 1 if a kernel spills registers, except rarely used ones."""
import os
import re
import subprocess
import sys

# Kernels that run once or rarely may spill: (name, why).
COLD = {}
WARPS, REGISTERS = 64, 65536  # a multiprocessor's, sm_80 to sm_100


def reports(build):
    """(source, what ptxas said) of each of our kernel files; kernels in wrapped libraries are not ours."""
    for folder, _, names in os.walk(os.path.join(build, "kernels")):
        for name in names:
            if name.endswith(".cu.o.ptxas"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    yield name.removesuffix(".o.ptxas"), f.read()


def kernels_of(report):
    """(mangled name, architecture, registers, spilled bytes, stack bytes, static shared bytes) of each kernel."""
    entry = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'(.*?)Used (\d+) registers([^\n]*)", re.S)
    for name, arch, middle, registers, rest in entry.findall(report):
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", middle)
        shared = re.search(r"(\d+) bytes smem", rest)
        spilled = int(stack[2]) + int(stack[3]) if stack else 0
        yield name, arch, int(registers), spilled, int(stack[1]) if stack else 0, int(shared[1]) if shared else 0


def demangled(names):
    out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    short = {}
    for name, text in zip(names, out.splitlines()):
        text = text.replace("(anonymous namespace)::", "").replace("dlrm::kernels::", "")
        text = text.removeprefix("void ")
        depth = 0
        for i, c in enumerate(text):  # up to the arguments
            depth += (c == "<") - (c == ">")
            if c == "(" and depth == 0 and i > 0 and text[i - 1] != "<":
                text = text[:i]
                break
        short[name] = re.sub(r"\((int|bool|unsigned int|\w+::\w+)\)", "", text)
    return short


def warps(registers):
    a_warp = (registers + 7) // 8 * 8 * 32
    return min(WARPS, REGISTERS // a_warp // 4 * 4)


def main():
    every, given = "--all" in sys.argv[1:], [word for word in sys.argv[1:] if word != "--all"]
    folder = given[0] if given else "build/cuda"
    if not given and not os.path.isdir(folder):
        print(f"{folder} was not built: no kernels to check")
        return
    rows = [(file, *kernel) for file, text in reports(folder) for kernel in kernels_of(text)]
    if not rows:
        sys.exit("error: no kernel found; was the folder built with DLRM_CUDA=ON?")
    names = demangled(sorted({row[1] for row in rows}))
    groups = {}
    for file, name, arch, *figures in rows:
        groups.setdefault((file, names[name]) + ((arch,) if every else ()), []).append((arch, *figures))
    bad = 0
    print(f"{'file':<24}{'registers':>10}{'spilled':>9}{'stack':>7}{'shared':>8}{'warps':>7}  kernel")
    for key, found in sorted(groups.items()):
        registers, spilled, stack, shared = (max(row[i] for row in found) for i in range(1, 5))
        note = ""
        if spilled > 0:
            cold = COLD.get(key[1].split("<")[0])
            where = ", ".join(sorted({row[0] for row in found if row[2] > 0}))
            note = f"  <- spills on {where}" + (f" (cold: {cold})" if cold else "")
            bad += not cold
        print(f"{key[0]:<24}{registers:>10}{spilled:>9}{stack:>7}{shared:>8}{warps(registers):>7}  "
              f"{key[1]}{' ' + key[2] if every else ''}{note}")
    print(f"{len(groups)} kernels, {bad} of them spill registers")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
