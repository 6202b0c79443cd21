"""Draws what `dlrm-bench feeding --output FILE.json` measured.

    dlrm-plot feeding FILE.json --output FIGURE.png

One bar for each way to feed a run: samples/s, and the share of time in which the device was busy.
"""
from __future__ import annotations

import os

from .. import figures
from ..endings import Parser


def draw(feeding):
    figure, (rate, busy) = figures.pyplot().subplots(1, 2, figsize=(10, 3.5), sharey=True)
    steps = feeding["steps"]
    names = [f"{step['name']}\n(batch {step['global_batch_size']})" for step in steps]
    for panel, values, text in ((rate, [step["samples_per_second"] for step in steps], "{:,.0f}"),
                                (busy, [100 * step["busy_share"] for step in steps], "{:.1f}")):
        bars = panel.barh(names, values)
        panel.bar_label(bars, labels=[text.format(value) for value in values], padding=3, fontsize="small")
        panel.set_xlim(0, 1.2 * max(values))
        panel.grid(axis="x", alpha=0.3)
    rate.invert_yaxis()
    rate.set_xlabel("samples/s")
    busy.set_xlabel("device busy, % of the time")
    figure.suptitle(f"{os.path.basename(feeding['config'])} on {feeding['device']}")
    figure.tight_layout()
    return figure


def run(words: list[str]) -> None:
    parser = Parser(prog="dlrm-plot feeding", description="Draws the JSON of dlrm-bench feeding.")
    parser.add_argument("file", metavar="FILE.json")
    parser.add_argument("--output", required=True, help="figure to write: .png, .svg or .pdf")
    arguments = parser.parse_args(words)
    feeding = figures.read_json(arguments.file)
    figures.save(figures.drawn(draw, feeding, "dlrm-bench feeding"), arguments.output)
