"""What dlrm-scaling does: each point is a mode, a kind of data, a sharding and a number of ranks."""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys

from .. import figures
from ..endings import Parser, Refused, program
from ..places import RUN
from ..sweep.trials import STOPPED, last_error, locked_folder, read, read_json, write
from .points import DATA, SHARDING, Point, read_config
from .predict import predict, simulator
from .report import figure, table

MODES = ("strong", "weak", "memory")
KEPT = ("samples_per_second", "step_ms", "stages_ms", "stages_max_ms", "data_wait_share", "memory", "plan", "world_size", "device", "comm",
        "host", "version", "started")


def parse(words):
    parser = Parser(
        prog="dlrm-scaling", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measures how training scales with the number of ranks. The same command continues after an "
        "interruption.",
        epilog="Modes: strong keeps the global batch and the model. weak gives each rank the batch that it has with the\n"
        "smallest number of ranks. memory also multiplies the rows of all tables, so that each rank holds as many bytes.\n"
        "Data: fresh makes new synthetic samples in every step; replay trains on one batch again and again.\n"
        "Words after -- go to dlrm-train.")
    parser.add_argument("config", metavar="CONFIG")
    parser.add_argument("--ranks", type=numbers, required=True, metavar="1,2,4,8")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="results.json, and a folder for each run")
    parser.add_argument("--mode", type=some_of(MODES), default=["strong"], metavar="strong,weak,memory",
                        help="one or more (default: strong)")
    parser.add_argument("--data", type=some_of(DATA), default=["fresh"], metavar="fresh,replay",
                        help="one or more (default: fresh)")
    parser.add_argument("--sharding", type=some_of(SHARDING), default=[None], metavar="table,auto,data_parallel",
                        help=f"compares strategies for all tables: one or more of {', '.join(SHARDING)} (default: what the "
                        "config says)")
    parser.add_argument("--steps", type=number, default=200, metavar="N", help="of a run (default: 200)")
    parser.add_argument("--repeats", type=number, default=3, metavar="N",
                        help="runs of a point (default: 3). Each time another point is the first.")
    parser.add_argument("--batch", type=number, metavar="B",
                        help="global batch of the smallest number of ranks (default: the config's)")
    parser.add_argument("--rows-scale", type=scale, default=1.0, metavar="F|auto",
                        help="multiplies the rows of all tables. auto: halves them until all points fit this machine")
    parser.add_argument("--launcher", metavar="WORDS",
                        help="what starts a run, as 'srun --ntasks={ranks} dlrm-train' (default: launch/run.sh)")
    parser.add_argument("--machine", metavar="FILE", help="machine file: also predicts each point (dlrm-bench simulate)")
    parser.add_argument("--predict-for", type=lambda text: text.split(","), default=[], metavar="FILE[,FILE]",
                        help="other machines' files: predicts each point there, with all rows and the config's batch")
    parser.add_argument("--predict-to", type=number, metavar="N",
                        help="with --machine or --predict-for: predicts more ranks, doubling the largest number up to N")
    parser.add_argument("--figure", metavar="OUT.svg", help="rates, efficiency and exchange by ranks (needs matplotlib)")
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.extra = words[end + 1:]
    options.predicts = bool(options.machine or options.predict_for)
    if options.predict_to and not options.predicts:
        parser.error("--predict-to: needs --machine FILE or --predict-for FILE")
    if options.launcher and options.rows_scale == "auto":
        parser.error("--rows-scale auto knows the memory of this machine alone: with --launcher give a number")
    if options.launcher and "{ranks}" not in options.launcher:
        parser.error(f"--launcher {options.launcher}: must contain {{ranks}}")
    return options


def number(text):
    if not text.isdigit() or not 1 <= int(text) <= 10 ** 9:
        raise argparse.ArgumentTypeError(f"{text}: not a whole number from 1")
    return int(text)


def numbers(text):
    found = [number(word) for word in text.split(",")]
    if sorted(set(found)) != found:
        raise argparse.ArgumentTypeError(f"{text}: must rise, as 1,2,4,8")
    return found


def some_of(known):
    def parse_words(text):
        found = text.split(",")
        for word in found:
            if word not in known or found.count(word) > 1:
                raise argparse.ArgumentTypeError(f"{text}: must be one or more of {','.join(known)}")
        return found
    return parse_words


def scale(text):
    try:
        value = text if text == "auto" else float(text)
    except ValueError:
        value = 0
    if value != "auto" and not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text}: must be auto or a number above 0")
    return value


def memory_of_machine():
    """GiB that can be had now."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")) / 2 ** 20


def planned(words, ranks, *more):
    """What dlrm-train says of its plan."""
    done = subprocess.run([RUN, "-np", "1", *words, "--plan-only", "--ranks", str(ranks), *more],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(last_error(done.stderr).removeprefix("error: "))
    return done.stdout


def fitting_scale(points, root, options):
    """The largest power of a half with which all points fit this machine."""
    path = os.path.join(options.output, "fit.yaml")
    memory = 0.8 * memory_of_machine()
    found = 1.0
    for point in points:
        while True:
            point.write(path, root, options, found, options.output)
            said = planned([path, "--set", "memory.tier=device", *options.extra], point.ranks, "--device-memory",
                           f"{memory / point.ranks:.3f}")
            if "\nfits: " in said:
                break
            if found < 2 ** -40:
                raise Refused(f"{point.name}: does not fit this machine with any number of rows")
            found /= 2
    os.remove(path)
    return found


def command(options, point, path):
    if options.launcher:
        return [*options.launcher.format(ranks=point.ranks).split(), path, *options.extra]
    return [RUN, "-np", str(point.ranks), path, *options.extra]


def run(options, point, root, results, repeat, stop):
    """Runs a point once. Returns what the summary says, or an error."""
    folder = os.path.join(options.output, point.name, str(repeat))
    os.makedirs(folder, exist_ok=True)
    path, log_path = os.path.join(folder, "point.yaml"), os.path.join(folder, "log.txt")
    point.write(path, root, options, results["rows_scale"], folder)
    with open(log_path, "w", encoding="utf-8") as log:
        # A session of its own: Ctrl-C reaches the run through this program, once.
        process = subprocess.Popen(command(options, point, path), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
        asked = False
        while process.poll() is None:
            if stop and not asked:
                asked = True
                process.terminate()
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
    if stop:
        return None
    if process.returncode:
        return {"error": last_error(read(log_path)) or f"exit code {process.returncode}"}
    summary = read_json(os.path.join(folder, "summary.json"), {})
    return {key: summary[key] for key in KEPT if key in summary}


def open_results(options, points, root):
    """The lock of the folder, and the results so far."""
    text = json.dumps([read(options.config), options.extra, options.steps, options.launcher, options.rows_scale], sort_keys=True)
    wanted = {"config": options.config, "digest": hashlib.sha256(text.encode()).hexdigest(), "steps": options.steps,
              "options": options.extra}
    lock = locked_folder(options.output, "measurement")
    results = read_json(os.path.join(options.output, "results.json"), {})
    if results and results["digest"] != wanted["digest"]:
        raise Refused(f"--output {options.output}: holds results of another config or of other options: name another "
                      "folder")
    if not results:
        scaled = fitting_scale(points, root, options) if options.rows_scale == "auto" else options.rows_scale
        results = {**wanted, "rows_scale": scaled, "points": []}
    known = {point["name"]: point for point in results["points"]}
    for point in points:
        found = known.get(point.name)
        if found and (found["batch"], found["rows_factor"]) != (point.batch, point.rows_factor):
            raise Refused(f"--output {options.output}: holds {point.name} with batch {found['batch']} and "
                          f"{found['rows_factor']:g} times the rows, not {point.batch} and {point.rows_factor:g}: name "
                          "another folder")
        if not found:
            results["points"].append({"name": point.name, "mode": point.mode, "data": point.data, "ranks": point.ranks,
                                      "sharding": point.sharding, "batch": point.batch, "rows_factor": point.rows_factor,
                                      "runs": []})
    return lock, results


def measure(options, points, root, results, stop):
    """Makes the runs that are missing."""
    entries = {entry["name"]: entry for entry in results["points"]}
    for entry in entries.values():
        entry["runs"] = [done for done in entry["runs"] if "error" not in done]  # they are tried again
    failed = set()
    for repeat in range(options.repeats):
        shift = repeat % len(points)
        for point in points[shift:] + points[:shift]:
            runs = entries[point.name]["runs"]
            if len(runs) > repeat or point.name in failed or stop:
                continue
            done = run(options, point, root, results, repeat, stop)
            if done is None:
                return
            runs.append(done)
            write(os.path.join(options.output, "results.json"), json.dumps(results, indent=1) + "\n")
            if "error" in done:
                failed.add(point.name)
                print(f"{point.name} failed: {done['error']}", file=sys.stderr)
            else:
                print(f"{point.name} {repeat + 1}/{options.repeats}: {done['samples_per_second']:.0f} samples/s", flush=True)


def measure_all(words: list[str]) -> int:
    stop = []  # a request to stop is its first item
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, lambda *_: stop.append(True))
    options = parse(words)
    root = read_config(options.config)
    if options.figure:
        figures.pyplot()  # missing packages are missed before anything runs
    if options.predicts:
        simulator()
    points = [Point(mode, data, sharding, ranks, options, root) for mode in options.mode for data in options.data
              for sharding in options.sharding for ranks in options.ranks]
    if not options.launcher:
        planned([options.config, *options.extra], points[-1].ranks)  # a wrong config ends here
    lock, results = open_results(options, points, root)
    with lock:
        results["processors"] = None if options.launcher else len(os.sched_getaffinity(0))
        measure(options, points, root, results, stop)
        if options.predicts and not stop:
            results["predicted"] = predict(options, root, results["rows_scale"])
            write(os.path.join(options.output, "results.json"), json.dumps(results, indent=1) + "\n")
    print("\n" + table(results))
    if options.figure:
        figure(results, options.figure)
    done = all(len(entry["runs"]) >= options.repeats and not any("error" in r for r in entry["runs"])
               for entry in results["points"] if entry["name"] in {point.name for point in points})
    return STOPPED if stop else 0 if done else 3


main = program(measure_all)

if __name__ == "__main__":
    sys.exit(main())
