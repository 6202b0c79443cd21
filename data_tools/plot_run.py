#!/usr/bin/env python3
"""Draws a run of dlrm-train: loss, AUC, samples/s, and the mean times of a step's stages.

    plot_run.py RUN --output FILE.svg

RUN is the run's output.directory. A run without summary.json has no stages yet. Needs matplotlib.
"""
import argparse

import figures
from run_files import Run, RunError


def curve(panel, lines, key, label=None):
    """Draws what is not null."""
    lines = [line for line in lines if line.get(key) is not None]
    panel.plot([line["step"] for line in lines], [line[key] for line in lines], label=label,
               marker="o" if len(lines) < 20 else None)


def draw(run):
    plot = figures.pyplot()
    figure, panels = plot.subplots(2, 2, figsize=(10, 7))
    loss, auc, rate, stages = panels.flat
    curve(loss, run.steps, "loss", "training")
    if run.evals:
        curve(loss, run.evals, "log_loss", "test data")
    curve(auc, run.evals, "auc")
    curve(rate, run.steps, "samples_per_second")
    times = run.summary.get("stages_ms", {})
    stages.barh(list(times), list(times.values()))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--output", required=True, metavar="FILE", help="figure to write: .svg, .png or .pdf")
    arguments = parser.parse_args()
    try:
        run = Run(arguments.run)
    except RunError as error:
        figures.fail(error)
    figures.save(draw(run), arguments.output)


if __name__ == "__main__":
    main()
