"""Draws what `dlrm-bench cache --output FILE.json` measured.

    dlrm-plot cache FILE.json [MORE.json ...] --output FIGURE.png

Four panels: the share of accesses that the hottest entries take; hit rate, speed relative to resident
tables, and the shares of time in which rows move and in which steps wait for them, by the part of the
tables in fast memory. Policies, and several files, are drawn side by side.
"""
from __future__ import annotations

import argparse
import os

from .. import figures
from ..endings import Parser


def lines_of(runs):
    """(label, points by share) for each policy of each file."""
    for name, run in runs:
        policies = []
        for point in run["points"]:
            if point["policy"] != "resident" and point["policy"] not in policies:
                policies.append(point["policy"])
        for policy in policies:
            points = [point for point in run["points"] if point["policy"] == policy]
            label = policy if len(runs) == 1 else f"{policy} ({name})"
            yield label, sorted(points, key=lambda point: point["share"])


def draw(runs):
    figure, panels = figures.pyplot().subplots(2, 2, figsize=(10, 7))
    skew, hits, speed, moving = panels.flat
    for name, run in runs:
        accesses = run["accesses"]
        skew.semilogx([100 * f for f in accesses["fractions"]], [100 * s for s in accesses["shares"]],
                      marker="o", label=name)
    for label, points in lines_of(runs):
        shares = [point["share"] for point in points]
        hits.plot(shares, [100 * point["hit_rate"] for point in points], marker="o", label=label)
        speed.plot(shares, [point["ratio"] for point in points], marker="o")
        line = moving.plot(shares, [100 * point["fetch_share"] for point in points], marker="o")[0]
        moving.plot(shares, [100 * point["exposed_share"] for point in points], marker="x", linestyle=":",
                    color=line.get_color())
    skew.set(xlabel="hottest entries, %", ylabel="accesses, %")
    if len(runs) > 1:
        skew.legend()
    hits.set(ylabel="rows of a batch in fast memory, %")
    hits.legend()
    speed.set(ylabel="speed, resident tables = 1", ylim=(0, None))
    moving.set(ylabel="time, %: fetching (o), waiting (x)", ylim=(0, None))
    for panel in (hits, speed, moving):
        panel.set_xlabel("tables in fast memory, %")
    for panel in panels.flat:
        panel.grid(alpha=0.3)
    first = runs[0][1]
    part = "lookups and updates" if first["part"] == "tables" else "whole steps"
    figure.suptitle(f"{first['chain']}, {part}, {first['processor'].split(' (')[0]}")
    figure.tight_layout()
    return figure


def run(words: list[str]) -> None:
    parser = Parser(prog="dlrm-plot cache", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args(words)
    runs = [(os.path.splitext(os.path.basename(path))[0], figures.read_json(path)) for path in arguments.files]
    figures.save(figures.drawn(draw, runs, "dlrm-bench cache"), arguments.output)
