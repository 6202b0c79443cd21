"""Predictions of launch/scaling.sh --machine, made by dlrm-bench simulate."""
import json
import os
import shutil
import subprocess

from scaling_points import Point
from sweep_trials import HERE, SweepError, last_error


def program():
    builds = [os.path.join(HERE, "..", "build", preset, "bin", "dlrm-bench") for preset in ("cpu", "cuda")]
    found = next((path for path in builds if os.access(path, os.X_OK)), None) or shutil.which("dlrm-bench")
    if not found:
        raise SweepError("--machine: needs dlrm-bench: build it with launch/build.sh cpu dlrm-bench")
    return found


def settings(extra):
    """Those of dlrm-train's words that change the config."""
    words = []
    for previous, word in zip(["", *extra], extra):
        if previous == "--set":
            words += ["--set", word]
        elif word.startswith("--set="):
            words += ["--set", word.removeprefix("--set=")]
    return words


def ranks_to_predict(options):
    """The measured numbers of ranks, and the largest one doubled up to --predict-to."""
    ranks = list(options.ranks)
    while options.predict_to and ranks[-1] * 2 <= options.predict_to:
        ranks.append(ranks[-1] * 2)
    return ranks


def predict(options, root, rows_scale):
    """A step of each mode on each number of ranks. Fresh and repeated data take the same time here."""
    points = []
    path, output = os.path.join(options.output, "predict.yaml"), os.path.join(options.output, "predict.json")
    for mode in options.mode:
        for ranks in ranks_to_predict(options):
            point = Point(mode, "fresh", ranks, options, root)
            point.write(path, root, options, rows_scale, options.output)
            done = subprocess.run([program(), "simulate", path, "--ranks", str(ranks), "--machine", options.machine, "--output",
                                   output, *settings(options.extra)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise SweepError(last_error(done.stderr).removeprefix("error: ") or "dlrm-bench simulate failed")
            with open(output, encoding="utf-8") as file:
                found = json.load(file)
            (step,) = found["points"]
            points.append({"mode": mode, "ranks": ranks, "batch": point.batch, "rows_factor": point.rows_factor,
                           "machine": found["machine"], **{key: step[key] for key in
                                                           ("step_ms", "samples_per_second", "exchange_ms", "stages")}})
            for leftover in (path, output):
                os.remove(leftover)
    return points
