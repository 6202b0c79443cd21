"""Runs the programs of dlrm-train for benchmarks."""
import json
import os
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def train(programs, config, settings, before=()):
    """The summary of a run of dlrm-train that keeps nothing. `before`: words that start it, such as taskset's."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {**settings, "output.metrics_every": 1 << 30}
        return json.loads(train_in(folder, programs, config, settings, "summary.json", before))


def warm_rate(programs, config, settings, steps):
    """The samples/s of the second half of 2 * `steps` steps: the first ones make kernels and touch memory."""
    settings = {**settings, "train.steps": 2 * steps, "output.metrics_every": steps}
    with tempfile.TemporaryDirectory() as folder:
        lines = train_in(folder, programs, config, settings, "metrics.jsonl").splitlines()
        return json.loads(lines[-1])["samples_per_second"]


def train_in(folder, programs, config, settings, result, before=()):
    settings = {**settings, "eval.at_end": "false", "output.directory": folder,
                "checkpoint.directory": os.path.join(folder, "checkpoints")}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run([*before, os.path.join(programs, "dlrm-train"), config, *sets])
    with open(os.path.join(folder, result), encoding="utf-8") as file:
        return file.read()
