"""Draws a run of dlrm-train: loss, AUC, samples/s, and the mean times of a step's stages.

    dlrm-plot run RUN --output FILE.svg

RUN is the run's output.directory. A run without summary.json has no stages yet. Needs matplotlib.
"""
from __future__ import annotations

import argparse
from typing import Any

from .. import figures
from ..endings import Parser
from ..figures import curve
from .files import Run


# In the order of a step. Others follow.
STAGES = ("data", "route", "lookup", "bottom", "return", "interact", "top", "loss", "backward", "allreduce", "update")


def draw(run: Run) -> Any:
    plot = figures.pyplot()
    figure, panels = plot.subplots(2, 2, figsize=(10, 7))
    loss, auc, rate, stages = panels.flat
    curve(loss, run.steps, "loss", "training")
    if run.evals:
        curve(loss, run.evals, "log_loss", "test data")
    curve(auc, run.evals, "auc")
    for task in dict.fromkeys(task for line in run.evals for task in line.get("tasks", {})):
        curve(auc, [{**line["tasks"][task], "step": line["step"]} for line in run.evals], "auc", task)
        auc.legend()
    curve(rate, run.rates, "samples_per_second")
    times = run.summary.get("stages_ms", {})
    names = [name for name in STAGES if name in times] + [name for name in times if name not in STAGES]
    stages.barh(names, [times[name] for name in names])
    stages.invert_yaxis()
    loss.legend()
    rate.set_ylim(bottom=0)
    for panel, title in ((loss, "loss"), (auc, "AUC of the test data"), (rate, "samples/s")):
        panel.set(xlabel="step", ylabel=title)
    stages.set_xlabel("ms of a step" if times else "stages: the run has not ended")
    for panel in panels.flat:
        panel.grid(alpha=0.3)
    device = run.summary.get("device", "")
    figure.suptitle(f"{run.name}, {device}" if device else run.name)
    figure.tight_layout()
    return figure


def run(words: list[str]) -> None:
    parser = Parser(prog="dlrm-plot run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--output", required=True, metavar="FILE", help="figure to write: .svg, .png or .pdf")
    arguments = parser.parse_args(words)
    figures.save(draw(Run(arguments.run)), arguments.output)
