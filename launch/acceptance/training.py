"""Runs of dlrm-train and their output."""
import json
import os
import shutil
import statistics


def settings(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def metrics(folder):
    """The steps in metrics.jsonl. The last line of a run that was killed may be incomplete."""
    lines = []
    try:
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            for line in file:
                try:
                    lines.append(json.loads(line))
                except ValueError:
                    break
    except FileNotFoundError:
        return []
    return [line for line in lines if "loss" in line]


def losses(folder):
    return [line["loss"] for line in metrics(folder)]


def summary(folder):
    try:
        with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return {}


def steady_rate(folder):
    """Samples/s: the median of the lines after the warm-up, or None before the third line."""
    rates = [line["samples_per_second"] for line in metrics(folder)][2:]
    return statistics.median(rates) if rates else None


def train(session, name, config, values, device, ranks=1, env=None, wrapper=(), options=(), limit=None):
    """Returns (run, folder). mpirun starts the ranks. `wrapper` precedes the program, `options` follow the settings."""
    folder = session.path(name)
    shutil.rmtree(folder, ignore_errors=True)
    command = [session.program("dlrm-train"), session.config(config), "--device", device,
               *settings({**values, "output.directory": folder, "checkpoint.directory": folder + "/checkpoints"}), *options]
    command = list(wrapper) + command
    if ranks > 1:
        command = ["mpirun", "--quiet", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] + command
    return session.run(name, command, env, limit=limit), folder
