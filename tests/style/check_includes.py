#!/usr/bin/env python3
"""Enforces the module table of docs/architecture.md: what a module may include, where third-party headers may
stand, where code may ask whether there is one rank, and how long a file may be. Prints each breach and exits with 1.

    check_includes.py [ROOT]"""
import os
import re
import sys

HERE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# The direct dependencies of a module. A module may also include what its dependencies include.
DIRECT = {
    "core": [], "config": ["core"], "device": ["core"], "wire": ["core"], "comm": ["core", "device", "wire"],
    "plan": ["core", "config", "wire"], "hdf5": ["core"], "data": ["core", "config", "encode", "hdf5"], "ops": ["core", "device"],
    "encode": ["core"], "nn": ["config", "ops", "comm"], "embedding": ["ops", "comm", "plan"], "metrics": ["core", "comm"],
}
DIRECT["train"] = list(DIRECT)
DIRECT["serve"] = list(DIRECT)
DIRECT["bench"] = list(DIRECT)
DIRECT["app"] = list(DIRECT)
DIRECT["data_tools"] = ["data", "encode"]
DIRECT["python"] = list(DIRECT)
DIRECT["kernels"] = ["core", "ops"]

THIRD_PARTY = {
    r"mpi\.h": {"comm"}, r"nccl\.h": {"comm"}, r"yaml-cpp/": {"config"}, r"hdf5\.h": {"hdf5"},
    r"oneapi/dnnl": {"ops", "bench"}, r"Random123/": {"core"}, r"xxhash\.h": {"core"}, r"nlohmann/": {"plan", "train", "data_tools", "data", "bench", "serve", "encode"},
    r"CLI/": {"app", "data_tools"}, r"isa-l": {"core", "data", "encode"}, r"liburing": {"embedding"}, r"boost/": {"serve"}, r"pybind11/": {"python"},
}
# Headers of CUDA and of our kernels: the only folders or files that may name them. Tests may.
CUDA = ("kernels/", "src/device/cuda/", "src/ops/cuda/", "src/comm/nccl/", "include/dlrm/device/cuda/")
PLACES = {
    r"kernels/(?!simt/)": ("kernels/", "src/ops/cuda/", "src/comm/nccl/bf16_"),  # sums a bf16 wire on the device
    r"dlrm/device/cuda/": CUDA,
    r"cuda(_\w+)?\.h|driver_types\.h": CUDA,
    r"cublas|cudnn|cub/|thrust/": ("src/device/cuda/",),
    r"(kernels/)?simt/": ("kernels/",),
}
LONGEST = 500
# One rank is no special case, because comm makes its calls cheap. These expressions test for it.
ONE_RANK = re.compile(
    r"\b\w*comm\w*(\(\))?(\.|->)size\(\) *(==|!=|>|<=) *1\b|\b1 *(==|!=|<|>=) *\w*comm\w*(\(\))?(\.|->)size\(\)"
    r"|\b\w*comm\w*(\(\))?(\.|->)size\(\) *(<|>=) *2\b"
    r"|\b(\w*(\.|->))?world\w*(\(\))?((\.|->)size\(\))? *((==|!=|>|<=) *1|(<|>=) *2)\b"
    r"|\balone_\b|\bis_alone\b")
# The files that may test for it, each with its reason: they choose a strategy at start-up, or print messages.
MAY_ASK_FOR_ONE_RANK = {
    "src/nn/gradient_buckets.cpp": "one rank starts no allreduce of gradients",
    "src/nn/parameters.cpp": "updates parameters within the backward if no gradient is exchanged",
    "src/embedding/update/replicas.cpp": "chooses how data-parallel tables exchange gradients",
    "src/plan/bound.cpp": "vectors are not sent without peers",
    "src/plan/cost.cpp": "the cost of exchanges is 0 without peers",
    "src/plan/traffic.cpp": "vectors are not sent without peers",
    "src/plan/memory.cpp": "one GPU sums no gradients of copies",
    "src/plan/id_exchange.cpp": "says that one rank exchanges no ids",
    "src/plan/make_plan.cpp": "chooses the placement of tables",
    "src/app/preflight/trials.cpp": "reports that one rank exchanges nothing",
    "src/app/dlrm_bench.cpp": "refuses several ranks",
    "src/train/run/run.cpp": "prints 'rank' or 'ranks'",
}


def allowed(module):
    seen, todo = {module}, list(DIRECT[module])
    while todo:
        m = todo.pop()
        if m not in seen:
            seen.add(m)
            todo += DIRECT[m]
    return seen


def sources(root):
    for top in ("src", "include/dlrm", "data_tools", "python", "tests", "examples", "kernels"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith((".h", ".cpp", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def module_of(path):
    parts = path.split(os.sep)
    if parts[0] == "src":
        return parts[1]
    if parts[0] == "include":
        return parts[2]
    return parts[0] if parts[0] in ("data_tools", "kernels", "python") else None


def out_of_place(path, header):
    """The only places that may include a header, if `path` is none of them."""
    for pattern, places in PLACES.items():
        if re.match(pattern, header) and not path.startswith(places):
            return places
    return ()


def find(root):
    """The breaches in a tree, a line each."""
    breaches, asking = [], set()
    for path in sorted(sources(root)):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            lines = f.read().splitlines()
        if len(lines) > LONGEST:
            breaches.append(f"{path}: {len(lines)} lines, at most {LONGEST}")
        module = module_of(path)
        for number, line in enumerate(lines, 1):
            if module and module != "comm" and ONE_RANK.search(line.split("//")[0]):
                asking.add(path)
                if path not in MAY_ASK_FOR_ONE_RANK:
                    breaches.append(f"{path}:{number}: a special case for one rank outside comm")
            include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if not include or not module:
                continue
            header = include.group(1)
            ours = re.match(r"dlrm/(\w+)/", header)
            if ours and ours.group(1) not in allowed(module):
                breaches.append(f"{path}:{number}: {module} may not include {header}")
            private = header.split("/")[0]
            if module in DIRECT["train"] + ["train"] and private in DIRECT and private not in (module, "kernels"):
                breaches.append(f"{path}:{number}: {header} is private to {private}")
            places = out_of_place(path, header)
            if places:
                breaches.append(f"{path}:{number}: {header} belongs in {', '.join(places)}")
            for pattern, homes in THIRD_PARTY.items():
                if re.match(pattern, header) and module not in homes:
                    breaches.append(f"{path}:{number}: {header} belongs in {', '.join(sorted(homes))}")
    if root == HERE:
        for path in sorted(set(MAY_ASK_FOR_ONE_RANK) - asking):
            breaches.append(f"{path} no longer asks for one rank: remove it from the exceptions")
    return breaches


def main():
    breaches = find(os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else HERE)
    print("\n".join(breaches) or "includes and lengths hold")
    sys.exit(bool(breaches))


if __name__ == "__main__":
    main()
