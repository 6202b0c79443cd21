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
        settings = {**settings, "eval.at_end": "false", "output.directory": folder,
                    "checkpoint.directory": os.path.join(folder, "checkpoints"), "output.metrics_every": 1 << 30}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        run([*before, os.path.join(programs, "dlrm-train"), config, *sets])
        with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
            return json.load(file)
