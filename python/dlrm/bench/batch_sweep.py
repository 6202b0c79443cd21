"""Draws what `dlrm-bench batch-sweep --output FILE.json` measured.

    dlrm-plot batch-sweep FILE.json [MORE.json ...] --output FIGURE.png

Four panels over the batch size: time (mean, standard deviation), samples/s, CPU utilisation and
memory, and the share of time that moves data (only for CPUs). Several files (other machines, other
devices) are drawn side by side. A dashed line marks each batch size at which a later file overtakes
the first, or falls behind it again.
"""
from __future__ import annotations

import math
import os

from .. import figures
from ..endings import Parser


def label_of(sweep):
    if sweep.get("device", "").startswith("cuda"):
        return sweep["device"]
    name = sweep["processor"].split(" (")[0]
    return f"{name}, {sweep['threads']} thread{'' if sweep['threads'] == 1 else 's'}"


def column(sweep, value):
    return [value(point) for point in sweep["points"]]


def utilization(point):
    cores = point["core_utilization"]
    return 100 * sum(cores) / len(cores)


def crossovers(one, other):
    """Where the lines cross between measured batch sizes: (batch size, is `other` faster from there on)."""
    times = [{p["batch"]: p["seconds"]["mean"] for p in sweep["points"]} for sweep in (one, other)]
    shared = sorted(set(times[0]) & set(times[1]))
    gaps = [math.log(times[1][b] / times[0][b]) for b in shared]
    found = []
    for left, right, before, after in zip(shared, shared[1:], gaps, gaps[1:]):
        if (before > 0) != (after > 0):
            found.append((left * (right / left) ** (before / (before - after)), after <= 0))
    return found


def draw(sweeps):
    figure, panels = figures.pyplot().subplots(2, 2, figsize=(10, 7), sharex=True)
    time, rate, busy, moving = panels.flat
    memory = busy.twinx()
    for sweep in sweeps:
        batches, label = column(sweep, lambda p: p["batch"]), label_of(sweep)
        time.errorbar(batches, column(sweep, lambda p: p["seconds"]["mean"]),
                      yerr=column(sweep, lambda p: p["seconds"]["stddev"]), marker="o", capsize=3, label=label)
        rate.plot(batches, column(sweep, lambda p: p["samples_per_second"]), marker="o")
        busy.plot(batches, column(sweep, utilization), marker="o")
        memory.plot(batches, column(sweep, lambda p: 100 * p["memory_share"]), marker="x", linestyle=":")
        if "moving_share" in sweep["points"][0]:  # a GPU's stages are not timed by the host
            moving.plot(batches, column(sweep, lambda p: 100 * p["moving_share"]), marker="o")
    first = sweeps[0]
    time.set_ylabel(f"seconds for {first['samples']} samples ({first['repeats']} runs)")
    rate.set_ylabel("samples/s")
    busy.set_ylabel("cores busy, % (line)")
    memory.set_ylabel("of the machine's memory, % (dotted)")
    moving.set_ylabel("time that moves data, %")
    memory.set_ylim(bottom=0)
    for panel in panels.flat:
        panel.set_xscale("log", base=2)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    for panel in panels[1]:
        panel.set_xlabel("batch size")
    for other in sweeps[1:]:
        for batch, overtaken in crossovers(first, other):
            faster = label_of(other if overtaken else first)
            time.axvline(batch, color="gray", linestyle="--", label=f"{faster} is faster from {batch:.0f}")
    time.legend(fontsize="small")
    figure.suptitle(os.path.basename(first["config"]))
    figure.tight_layout()
    return figure


def run(words: list[str]) -> None:
    parser = Parser(prog="dlrm-plot batch-sweep", description="Draws the JSON of dlrm-bench batch-sweep.")
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("--output", required=True, help="figure to write: .png, .svg or .pdf")
    arguments = parser.parse_args(words)
    sweeps = [figures.read_json(path) for path in arguments.files]
    figures.save(figures.drawn(draw, sweeps, "dlrm-bench batch-sweep"), arguments.output)
