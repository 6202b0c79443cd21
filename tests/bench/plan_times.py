#!/usr/bin/env python3
"""How long dlrm-plan takes for many ranks, and how even its plans are: CPU seconds of the whole program, which makes the
plan, describes it and writes it, and the heaviest rank over the least possible. Prints one line per config and number
of ranks.

  tests/bench/plan_times.py [--program build/cpu/bin/dlrm-plan] [--ranks 4096,65536] [--device-memory GiB]
                             [--machine FILE] [CONFIG...]

Without a CONFIG it takes all of configs/.
"""
import argparse
import glob
import os
import re
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def child_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shards_of(path):
    with open(path, encoding="utf-8") as file:
        return sum('"rank": ' in line for line in file)


def measure(program, config, ranks, options):
    """CPU seconds, shards, and the ratios of cost and memory of one plan."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "plan.json")
        words = [program, config, "--ranks", str(ranks), "--output", output] + options
        before = child_seconds()
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        seconds = child_seconds() - before
        if done.returncode:
            sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
        ratios = re.search(r"over a lower bound: cost ([0-9.]+), memory ([0-9.]+)", done.stdout)
        return seconds, shards_of(output), ratios[1], ratios[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", metavar="CONFIG")
    parser.add_argument("--program", default=os.path.join(ROOT, "build/cpu/bin/dlrm-plan"))
    parser.add_argument("--ranks", default="4096,65536")
    parser.add_argument("--device-memory", help="GiB of a rank; the report then says what would fit")
    parser.add_argument("--machine", help="a machine file")
    arguments = parser.parse_args()
    options = []
    for name, value in (("--device-memory", arguments.device_memory), ("--machine", arguments.machine)):
        options += [name, value] if value else []
    configs = arguments.configs or sorted(glob.glob(os.path.join(ROOT, "configs", "**", "*.yaml"), recursive=True))
    print(f"{'config':<40}{'ranks':>8}{'shards':>10}{'seconds':>10}{'cost':>8}{'memory':>8}")
    for config in configs:
        for ranks in arguments.ranks.split(","):
            seconds, shards, cost, memory = measure(arguments.program, config, int(ranks), options)
            name = os.path.relpath(config, ROOT)
            print(f"{name:<40}{ranks:>8}{shards:>10}{seconds:>10.2f}{cost:>8}{memory:>8}", flush=True)


if __name__ == "__main__":
    main()
