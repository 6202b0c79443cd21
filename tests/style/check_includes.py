#!/usr/bin/env python3
"""Holds the module table of docs/architecture.md: what a module may include, where third-party headers may
stand, and how long a file may be. Prints each breach and exits with 1."""
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# What a module names itself; including a module brings what that includes.
DIRECT = {
    "core": [], "config": ["core"], "device": ["core"], "comm": ["core", "device"],
    "plan": ["core", "config"], "data": ["core", "config"], "ops": ["core", "device"],
    "nn": ["ops", "comm"], "embedding": ["ops", "comm", "plan"], "metrics": ["core", "comm"],
}
DIRECT["train"] = list(DIRECT)
DIRECT["bench"] = list(DIRECT)
DIRECT["app"] = list(DIRECT)
DIRECT["data_tools"] = ["data"]

THIRD_PARTY = {
    r"mpi\.h": {"comm"}, r"nccl\.h": {"comm"}, r"yaml-cpp/": {"config"}, r"hdf5\.h": {"data", "train"},
    r"oneapi/dnnl": {"ops", "bench"}, r"Random123/": {"core"}, r"nlohmann/": {"plan", "train", "data_tools", "data", "bench"},
    r"CLI/": {"app", "data_tools"}, r"isa-l": {"train", "data_tools"},
}
LONGEST = 500


def allowed(module):
    seen, todo = {module}, list(DIRECT[module])
    while todo:
        m = todo.pop()
        if m not in seen:
            seen.add(m)
            todo += DIRECT[m]
    return seen


def sources():
    for top in ("src", "include/dlrm", "data_tools", "tests", "examples", "kernels"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".h", ".cpp", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def module_of(path):
    parts = path.split(os.sep)
    if parts[0] == "src":
        return parts[1]
    if parts[0] == "include":
        return parts[2]
    return parts[0] if parts[0] == "data_tools" else None


def main():
    breaches = []
    for path in sorted(sources()):
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            lines = f.read().splitlines()
        if len(lines) > LONGEST:
            breaches.append(f"{path}: {len(lines)} lines, at most {LONGEST}")
        module = module_of(path)
        for number, line in enumerate(lines, 1):
            include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if not include or not module:
                continue
            header = include.group(1)
            ours = re.match(r"dlrm/(\w+)/", header)
            if ours and ours.group(1) not in allowed(module):
                breaches.append(f"{path}:{number}: {module} may not include {header}")
            for pattern, homes in THIRD_PARTY.items():
                if re.match(pattern, header) and module not in homes:
                    breaches.append(f"{path}:{number}: {header} belongs in {', '.join(sorted(homes))}")
            if re.search(r"if \(.*world_?size(\(\))? *(>|==|!=) *1", line) and module != "comm":
                breaches.append(f"{path}:{number}: a special case for one rank outside comm")
    print("\n".join(breaches) or "includes and lengths hold")
    sys.exit(bool(breaches))


if __name__ == "__main__":
    main()
