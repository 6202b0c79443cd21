"""Predictions of dlrm-scaling --machine and --predict-for, made by dlrm-bench simulate."""
import os
import shutil
import subprocess

from .. import places
from ..endings import Refused
from ..sweep.trials import last_error, read_json
from .points import Point

KEPT = ("step_ms", "samples_per_second", "exchange_ms", "exchanged_bytes", "memory_bytes", "stages")


def simulator():
    builds = [os.path.join(places.HOME, "build", preset, "bin", "dlrm-bench") for preset in ("cpu", "cuda")]
    found = next((path for path in builds if os.access(path, os.X_OK)), None) or shutil.which("dlrm-bench")
    if not found:
        raise Refused("predictions need dlrm-bench: build it with launch/build.sh cpu dlrm-bench")
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
    """A step of each mode, sharding and number of ranks: as it is measured for --machine, and of full size for each
    machine of --predict-for. With fresh data."""
    machines = [(options.machine, False)] if options.machine else []
    machines += [(path, True) for path in options.predict_for]
    points = []
    for machine, full_size in machines:
        for mode in options.mode:
            for sharding in options.sharding:
                for ranks in ranks_to_predict(options):
                    point = Point(mode, "fresh", sharding, ranks, options, root, full_size)
                    found = simulate(point, machine, root, options, 1.0 if full_size else rows_scale)
                    found["machine"]["processor"] = measured_processor(machine)
                    (step,) = found["points"]
                    points.append({"mode": mode, "sharding": sharding, "ranks": ranks, "batch": point.batch,
                                   "rows_factor": point.rows_factor, "full_size": full_size, "machine": found["machine"],
                                   **{key: step[key] for key in KEPT}})
    return points


def simulate(point, machine, root, options, rows_scale):
    """What dlrm-bench simulate says of a point."""
    path, output = os.path.join(options.output, "predict.yaml"), os.path.join(options.output, "predict.json")
    point.write(path, root, options, rows_scale, options.output)
    here = machine == options.machine and not options.launcher and not os.environ.get("MPIRUN_OPTIONS")
    nodes = ["--ranks-per-node", str(point.ranks)] if here else []
    done = subprocess.run([simulator(), "simulate", path, "--ranks", str(point.ranks), *nodes, "--machine", machine, "--output",
                           output, *settings(options.extra)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(last_error(done.stderr).removeprefix("error: ") or "dlrm-bench simulate failed")
    found = read_json(output, {})
    for leftover in (path, output):
        os.remove(leftover)
    return found


def measured_processor(machine):
    """The processor on which dlrm-bench machine measured the file, or None."""
    found = read_json(machine, {}).get("measured")
    return found.get("processor") if isinstance(found, dict) else None
