#!/usr/bin/env python3
"""The time of `dlrm-data shuffle` over that of a plain copy, in turn, each until its data is on the disk.

    shuffle_rates.py [--gigabytes 20] [--folder DIR] [--memory 4GiB] [--rounds 3] [--build build/cpu]
                     [--drop-caches]

Samples are those of configs/quickstart.yaml. With less data than the machine's memory both read it from the page
cache, unless --drop-caches, which only root may use. The folder needs room for three times the data."""
import argparse
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAMPLE_BYTES = 157


def timed(*commands):
    start = time.monotonic()
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--folder", default=".")
    parser.add_argument("--memory", default="4GiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "cpu"))
    parser.add_argument("--drop-caches", action="store_true")
    arguments = parser.parse_args()

    def prepare():
        timed(["sync"])
        if arguments.drop_caches:
            with open("/proc/sys/vm/drop_caches", "w") as caches:
                caches.write("3")

    program = os.path.join(arguments.build, "bin", "dlrm-data")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        data, shuffled, copy = (os.path.join(folder, name) for name in ("in.h5", "shuffled.h5", "copy.h5"))
        samples = int(arguments.gigabytes * 1e9 / SAMPLE_BYTES)
        timed([program, "synth", "--config", os.path.join(ROOT, "configs", "quickstart.yaml"), "--samples", str(samples),
               "--output", data], ["sync"])
        size = os.path.getsize(data) / 1e9
        ratios = []
        for _ in range(arguments.rounds):
            for path in (copy, shuffled):
                if os.path.exists(path):
                    os.remove(path)
            prepare()
            plain = timed(["cp", "--reflink=never", data, copy], ["sync", copy])
            os.remove(copy)
            prepare()
            ours = timed([program, "shuffle", data, "--output", shuffled, "--memory", arguments.memory])
            ratios.append(ours / plain)
            print(f"{size:.1f} GB: copy {plain:.1f} s, shuffle {ours:.1f} s, {ratios[-1]:.2f} times", flush=True)
        print(f"median of {len(ratios)}: {sorted(ratios)[len(ratios) // 2]:.2f} times a copy; load of the machine "
              f"{os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")


if __name__ == "__main__":
    sys.exit(main())
