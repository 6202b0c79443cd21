#!/usr/bin/env python3
"""Compares simulated steps with measured ones on the machine at hand: measures a machine file, with a rank for each
processor and no training, then trains several models on 1 to 8 ranks and prints what dlrm-bench simulate says of each
point. The same command continues after an interruption.

  tests/bench/simulated_steps.py --output FOLDER [--only kaggle,tiny] [--repeats 3] [--set KEY=VALUE ...]

Nothing else should run meanwhile. --machine names a file that was measured before.
"""
import argparse
import os
import statistics
import subprocess
import sys

from dlrm.scaling.command import measure_all
from dlrm.scaling.predict import simulator
from dlrm.scaling.report import good_runs, rate
from dlrm.sweep.trials import STOPPED, read_json

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

RANKS = "1,2,4,8"
POINTS = {  # config, words of dlrm-scaling, and settings
    "quickstart": ("quickstart.yaml", ["--ranks", RANKS, "--steps", "300"], []),
    "tiny": ("synthetic/tiny.yaml", ["--ranks", RANKS, "--batch", "4096", "--rows-scale", "0.0625", "--steps", "100"], []),
    "kaggle": ("criteo_kaggle.yaml", ["--ranks", RANKS, "--batch", "2048", "--rows-scale", "0.25", "--steps", "100"], []),
    "small": ("synthetic/small.yaml", ["--ranks", RANKS, "--batch", "4096", "--rows-scale", "0.03125", "--steps", "30"], []),
    "criteo": ("synthetic/criteo.yaml", ["--ranks", RANKS, "--batch", "4096", "--rows-scale", "0.25", "--steps", "30"], []),
    "dcnv2": ("mlperf_dcnv2.yaml", ["--ranks", RANKS, "--batch", "1024", "--rows-scale", "0.0078125", "--steps", "20"], []),
    "lookup": ("bench/lookup.yaml", ["--ranks", RANKS, "--rows-scale", "0.25", "--steps", "100"], []),
    "dle_mlp": ("bench/dle_mlp.yaml", ["--ranks", RANKS, "--steps", "20"], []),
    "quickstart_512": ("quickstart.yaml", ["--ranks", RANKS, "--batch", "512", "--steps", "600"], []),
    "quickstart_8192": ("quickstart.yaml", ["--ranks", RANKS, "--batch", "8192", "--steps", "100"], []),
    "dcnv2_bf16": ("mlperf_dcnv2.yaml", ["--ranks", RANKS, "--batch", "1024", "--rows-scale", "0.0078125", "--steps", "20"],
                   ["train.precision=bf16"]),
    "quickstart_thread": ("quickstart.yaml", ["--ranks", "1,2", "--steps", "300"], ["train.threads=1"]),
    "tiny_thread": ("synthetic/tiny.yaml", ["--ranks", "1,2", "--batch", "4096", "--rows-scale", "0.0625", "--steps", "60"],
                    ["train.threads=1"]),
    "kaggle_thread": ("criteo_kaggle.yaml", ["--ranks", "1,2", "--batch", "2048", "--rows-scale", "0.25", "--steps", "60"],
                      ["train.threads=1"]),
}
# Synthetic labels have nothing to learn: large rates diverge.
SETTINGS = ["train.dense_optimizer.lr=0.001", "train.sparse_optimizer.lr=0.001", "device=cpu"]


def measure_machine(path):
    ranks = len(os.sched_getaffinity(0))
    subprocess.run(["mpirun", "--bind-to", "none", "-np", str(ranks), simulator(), "machine", "--output", path],
                   stdout=subprocess.DEVNULL, check=True)


def rows(name, results):
    """Model, ranks, measured and predicted ms, and the relative error."""
    entries = {entry["ranks"]: entry for entry in results["points"] if good_runs(entry)}
    for point in results.get("predicted", []):
        if point["ranks"] in entries:
            entry = entries[point["ranks"]]
            ms = 1e3 * entry["batch"] / rate(entry)
            yield name, point["ranks"], ms, point["step_ms"], point["step_ms"] / ms - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--machine")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(POINTS))
    parser.add_argument("--repeats", default="3")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    os.makedirs(options.output, exist_ok=True)
    machine = options.machine or os.path.join(options.output, "machine.json")
    if not os.path.exists(machine):
        measure_machine(machine)
    found = []
    for name in options.only:
        config, words, more = POINTS[name]
        folder = os.path.join(options.output, name)
        settings = [word for setting in SETTINGS + more + options.set for word in ("--set", setting)]
        code = measure_all([os.path.join(ROOT, "configs", config), "--output", folder, "--machine", machine, "--repeats",
                            options.repeats, *words, "--", *settings])
        if code in (2, STOPPED):
            return code
        found += rows(name, read_json(os.path.join(folder, "results.json"), {}))
    print(f"\n{'model':<20}{'ranks':>6}{'measured ms':>13}{'predicted ms':>14}{'error %':>9}")
    for name, ranks, measured, predicted, error in found:
        print(f"{name:<20}{ranks:>6}{measured:>13.2f}{predicted:>14.2f}{100 * error:>+9.1f}")
    errors = [abs(row[-1]) for row in found]
    print(f"{len(errors)} points: median error {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
