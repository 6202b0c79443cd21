"""Compares runs of dlrm-train: a table of the best evaluation, also of each task, the test AUC of runs with data.valid,
samples/s and the config keys that differ.

    dlrm-compare DIR... [--figure OUT.svg]

DIR is a run's output.directory. A run without summary.json is shown as far as it has come. --figure needs
matplotlib.
"""
from __future__ import annotations

import argparse
import shutil
import sys
from typing import Any, Iterator

from .. import figures
from ..endings import Parser, program
from .files import Run

OWN = ("output.directory", "checkpoint.directory")  # always differ
WIDEST = 40


def differing_keys(runs: list[Run]) -> list[str]:
    names = dict.fromkeys(name for run in runs for name in run.config)
    return [name for name in names
            if name not in OWN and len({run.config.get(name) for run in runs}) > 1]


def number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def columns(runs: list[Run]) -> Iterator[list[str]]:
    """Each is a title and the values of the runs."""
    tasks = dict.fromkeys(task for run in runs for task in run.tasks)
    yield ["steps", *(str(run.last_step) + ("" if run.summary else " (no end)") for run in runs)]
    yield ["AUC", *(number(run.best_eval.get("auc"), ".5f") for run in runs)]
    yield ["log loss", *(number(run.best_eval.get("log_loss"), ".5f") for run in runs)]
    for task in tasks:
        yield [f"AUC {task}", *(number(run.tasks.get(task, {}).get("auc"), ".5f") for run in runs)]
    if any("test" in run.summary for run in runs):
        yield ["test AUC", *(number(run.summary.get("test", {}).get("auc"), ".5f") for run in runs)]
    yield ["samples/s", *(number(run.samples_per_second, ",.0f") for run in runs)]
    for key in differing_keys(runs):
        yield [ending(key), *(shortened(run.config.get(key, "-")) for run in runs)]


def shortened(text: str) -> str:
    return text if len(text) <= WIDEST else text[:WIDEST - 3] + "..."


def ending(text: str) -> str:
    return text if len(text) <= WIDEST else "..." + text[3 - WIDEST:]


def table(runs: list[Run]) -> list[str]:
    """The lines. Columns that do not fit are in further tables below, each of which begins with the runs."""
    width = shutil.get_terminal_size((100, 0)).columns
    names = ["run", *(ending(run.name) for run in runs)]
    tables = [[names]]
    for column in columns(runs):
        if len(tables[-1]) > 1 and len(aligned([*tables[-1], column])[0]) > width:
            tables.append([names])
        tables[-1].append(column)
    return [line.rstrip() for number, found in enumerate(tables) for line in [""] * (number > 0) + aligned(found)]


def aligned(found: list[list[str]]) -> list[str]:
    """The lines of columns, the first of which is left-aligned."""
    widths = [max(map(len, column)) for column in found]
    return ["  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(cells, widths)))
            for cells in zip(*found)]


def draw(runs: list[Run]) -> Any:
    plot = figures.pyplot()
    figure, panels = plot.subplots(1, 3, figsize=(15, 4.5))
    for run in runs:
        for panel, lines, key in zip(panels, (run.steps, run.evals, run.rates), ("loss", "auc", "samples_per_second")):
            figures.curve(panel, lines, key, run.name)
    for panel, title in zip(panels, ("training loss", "AUC", "samples/s")):
        panel.set(xlabel="step", ylabel=title)
        panel.grid(alpha=0.3)
    panels[2].set_ylim(bottom=0)
    panels[0].legend()
    figure.tight_layout()
    return figure


def run(words: list[str]) -> None:
    parser = Parser(prog="dlrm-compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--figure", metavar="OUT.svg", help="draw loss, AUC and samples/s: .svg, .png or .pdf")
    arguments = parser.parse_args(words)
    runs = [Run(folder) for folder in arguments.folders]
    name_apart(runs)
    figure = draw(runs) if arguments.figure else None
    sys.stdout.write("".join(line + "\n" for line in table(runs)))
    if figure is not None:
        figures.save(figure, arguments.figure)


def name_apart(runs: list[Run]) -> None:
    """Runs whose folders have one name are called by their paths."""
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            run.name = run.folder


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
