"""launch/gpu_acceptance.sh tells what this is."""
import argparse
import os
import shlex
import sys

import benchmarks
import proofs
import report
from steps import Session

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def arguments():
    parser = argparse.ArgumentParser(prog="launch/gpu_acceptance.sh")
    parser.add_argument("--bin")
    parser.add_argument("--output", default="runs/acceptance")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--seconds", type=float)
    return parser.parse_args()


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def main():
    options = arguments()
    preset = "simt" if options.emulated else "cuda"
    bin_dir = os.path.abspath(options.bin or os.path.join(ROOT, "build", preset, "bin"))
    if not os.access(os.path.join(bin_dir, "dlrm-train"), os.X_OK):
        fail(f"no dlrm-train in {bin_dir}: launch/build.sh {preset}, or --bin DIR")
    if not options.emulated and not report.has_gpu():
        fail("nvidia-smi finds no GPU here; --emulated tests the script itself, with the preset simt")
    output = os.path.abspath(options.output)
    os.makedirs(output, exist_ok=True)
    seconds = options.seconds or (200 if options.quick else 540)
    session = Session(ROOT, bin_dir, output, seconds, options.emulated, options.quick)
    head = report.describe(session, "launch/gpu_acceptance.sh " + " ".join(map(shlex.quote, sys.argv[1:])))
    try:
        proofs.add(session)
        benchmarks.add(session)
    finally:
        report.write(session, head)
    count = {}
    for record in session.records:
        count[record["status"]] = count.get(record["status"], 0) + 1
    names = ("passed", "below goal", "failed", "skipped")
    print(f"{output}/record.md: " + ", ".join(f"{count.get(name, 0)} {name}" for name in names))
    sys.exit(1 if count.get("failed") else 0)


if __name__ == "__main__":
    main()
