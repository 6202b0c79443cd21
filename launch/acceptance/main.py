"""The program behind launch/gpu_acceptance.sh, which describes it."""
import argparse
import os
import shlex
import signal
import sys

import benchmarks
import libraries
import proofs
import report
from steps import Session, matches

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def arguments():
    parser = argparse.ArgumentParser(prog="launch/gpu_acceptance.sh")
    parser.add_argument("--bin")
    parser.add_argument("--output", default="runs/acceptance")
    parser.add_argument("--scratch")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--merge", nargs="+", metavar="RECORD")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--seconds", type=float)
    return parser.parse_args()


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def add_steps(session):
    proofs.add(session)
    benchmarks.add(session)
    proofs.add_sanitizer(session)


def all_steps(emulated, quick):
    """(group, key, time limit in seconds, name) of each step, in order."""
    found = []

    class Listing(Session):
        def step(self, group, key, name, limit, body):
            found.append((group, key, limit, name))

    listing = Listing(ROOT, "", "", 0, emulated, quick)
    add_steps(listing)
    return found


def choice(options):
    """A function of group and key that selects the steps to run."""
    known = all_steps(options.emulated, options.quick)
    only, without = ([word for word in text.split(",") if word] for text in (options.only, options.skip))
    for word in only + without:
        if not any(matches(word, group, key) for group, key, _, _ in known):
            fail(f"no step {word}; --list names them")

    def wanted(group, key):
        if any(matches(word, group, key) for word in without):
            return False
        return not only or any(matches(word, group, key) for word in only)

    return wanted


def merge(options, output):
    try:
        whole = report.joined([report.read(path) for path in options.merge])
    except (OSError, ValueError, KeyError) as error:
        fail(f"--merge: {error}")
    report.write(output, *whole)
    print(f"{output}/record.md: {report.counts(whole[1])}")


def stop(*_):
    raise SystemExit(1)


def run(options, bin_dir, output, wanted):
    with open(os.path.join(HERE, "programs.txt"), encoding="utf-8") as file:
        names = file.read().split()
    env, nowhere = libraries.path_for(bin_dir, names)
    if nowhere:
        fail(f"libraries are missing: {', '.join(nowhere)}: put them on LD_LIBRARY_PATH, or into a folder lib next to {bin_dir}")
    scratch = os.path.abspath(options.scratch) if options.scratch else output
    os.makedirs(scratch, exist_ok=True)
    session = Session(ROOT, bin_dir, scratch, options.seconds or (200 if options.quick else 540), options.emulated,
                      options.quick, wanted)
    session.env = env
    head = report.describe(session, "launch/gpu_acceptance.sh " + " ".join(map(shlex.quote, sys.argv[1:])))
    before = None
    if options.only and os.path.exists(os.path.join(output, "record.json")):
        before = report.read(os.path.join(output, "record.json"))
        session.facts = before[2]

    def write():
        new = (head, session.records, session.facts)
        report.write(output, *(report.joined([before, new]) if before and report.alike(before[0], head) else new))

    session.changed = write
    signal.signal(signal.SIGTERM, stop)
    try:
        add_steps(session)
    finally:
        write()
    print(f"{output}/record.md: {report.counts(session.records)}")
    return 1 if any(record["status"] == "failed" for record in session.records) else 0


def main():
    options = arguments()
    if options.list:
        for group, key, limit, name in all_steps(options.emulated, options.quick):
            print(f"{group:<10} {key:<28} at most {limit:>3} s   {name}")
        return 0
    output = os.path.abspath(options.output)
    if options.merge:
        os.makedirs(output, exist_ok=True)
        merge(options, output)
        return 0
    wanted = choice(options)
    preset = "simt" if options.emulated else "cuda"
    bin_dir = os.path.abspath(options.bin or os.path.join(ROOT, "build", preset, "bin"))
    if not os.access(os.path.join(bin_dir, "dlrm-train"), os.X_OK):
        fail(f"no dlrm-train in {bin_dir}: launch/build.sh {preset}, or --bin DIR")
    if not options.emulated and not report.has_gpu():
        fail("nvidia-smi finds no GPU here; --emulated tests the script itself, with the preset simt")
    os.makedirs(output, exist_ok=True)
    return run(options, bin_dir, output, wanted)


if __name__ == "__main__":
    sys.exit(main())
