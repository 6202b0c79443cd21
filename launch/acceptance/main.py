"""The program behind launch/gpu_acceptance.sh, which describes it."""
import argparse
import os
import shlex
import shutil
import signal
import sys
import tempfile

import archive
import libraries
import plan
import report
import start
from steps import Session, matches

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Of the seconds of a call: to end the last command, and to pack.
AT_THE_END, PACKING = 20, 8


def arguments():
    parser = argparse.ArgumentParser(prog="launch/gpu_acceptance.sh")
    call = parser.add_mutually_exclusive_group()
    call.add_argument("--first", dest="call", action="store_const", const="first")
    call.add_argument("--second", dest="call", action="store_const", const="second")
    programs = parser.add_mutually_exclusive_group()
    programs.add_argument("--bin")
    programs.add_argument("--bundle")
    parser.add_argument("--output")
    parser.add_argument("--scratch")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
    if not options.call:
        parser.error("--first or --second")
    return options


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def listed(call):
    """(key, time limit in seconds, name) of each step, in order."""
    found = []

    class Listing(Session):
        def step(self, key, name, limit, body):
            found.append((key, limit, name))

    plan.CALLS[call](Listing(ROOT, "", "", 0))
    return found


def choice(options):
    """A function of the key that selects the steps to run."""
    known = [key for key, _, _ in listed(options.call)]
    only = [word for word in options.only.split(",") if word]
    for word in only:
        if not any(matches(word, key) for key in known):
            fail(f"no step {word}; --list names them")
    return lambda key: not only or any(matches(word, key) for word in only)


def programs(options, scratch):
    """(the folder of programs, the environment in which they start)."""
    if options.bundle:
        try:
            archive.unpack(options.bundle, os.path.join(scratch, "bundle"))
        except Exception as error:  # of the file, of tarfile, of a Python without lzma
            fail(f"{options.bundle} cannot be unpacked: {type(error).__name__}: {error}")
        bin_dir = os.path.join(scratch, "bundle", "bin")
    else:
        preset = "simt" if options.emulated else "cuda"
        bin_dir = os.path.abspath(options.bin or os.path.join(ROOT, "build", preset, "bin"))
        if not os.access(os.path.join(bin_dir, "dlrm-train"), os.X_OK):
            fail(f"no dlrm-train in {bin_dir}: launch/build.sh {preset}, or --bin DIR, or --bundle FILE")
    with open(os.path.join(HERE, "programs.txt"), encoding="utf-8") as file:
        env, nowhere = libraries.path_for(bin_dir, file.read().split())
    if nowhere:
        fail(f"libraries are missing: {', '.join(nowhere)}: put them on LD_LIBRARY_PATH, or into a folder lib next to {bin_dir}")
    return bin_dir, env


def on_signals(what):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, what)


def stop(*_):
    """The record and the archive are still written, and nothing interrupts that."""
    on_signals(signal.SIG_IGN)
    raise SystemExit(1)


def run(options, output, scratch, wanted):
    seconds = options.seconds or plan.LIMITS[options.call]
    pace = seconds / plan.LIMITS[options.call]
    session = Session(ROOT, "", scratch, seconds - pace * AT_THE_END, options.emulated, wanted, pace=pace)
    on_signals(stop)
    # What no step's limit has ended until then ends here.
    signal.setitimer(signal.ITIMER_REAL, seconds - pace * (PACKING + 2))
    if not options.emulated:
        session.facts["card"] = start.card()
    head = report.describe(session, "launch/gpu_acceptance.sh " + " ".join(map(shlex.quote, sys.argv[1:])))

    def write():
        report.write(output, head, session.records, session.facts)

    session.changed = write
    try:
        write()
        session.bin, session.env = programs(options, scratch)
        head.update(report.build(session))
        write()
        plan.CALLS[options.call](session)
    finally:
        on_signals(signal.SIG_IGN)
        write()
        archive.pack(scratch, os.path.join(output, "logs.tar.gz"), pace * PACKING, [os.path.join(scratch, "bundle")])
    print(f"{output}/record.md: {report.counts(session.records)}")
    return 1 if any(record["status"] == "failed" for record in session.records) else 0


def main():
    options = arguments()
    if options.list:
        for key, limit, name in listed(options.call):
            print(f"{key:<28} at most {limit:>3} s   {name}")
        return 0
    wanted = choice(options)
    if not options.emulated and not report.has_gpu():
        fail("nvidia-smi finds no GPU here; --emulated tests the script itself, with the preset simt")
    output = os.path.abspath(options.output or os.path.join("runs/acceptance", options.call))
    os.makedirs(output, exist_ok=True)
    if options.scratch:
        os.makedirs(options.scratch, exist_ok=True)
        return run(options, output, os.path.abspath(options.scratch), wanted)
    scratch = tempfile.mkdtemp(prefix="gpu-acceptance-")
    try:
        return run(options, output, scratch, wanted)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
