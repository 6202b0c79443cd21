"""Compares runs of dlrm-train: a table of the best evaluation, also of each task, the test AUC of runs with data.valid,
samples/s and the config keys that differ.

    dlrm-compare DIR... [--figure OUT.svg]

DIR is a run's output.directory. A run without summary.json is shown as far as it has come. --figure needs
matplotlib.
"""
import argparse
import shutil
import sys

from .. import figures
from ..endings import Parser, program
from .files import Run

OWN = ("output.directory", "checkpoint.directory")  # always differ
WIDEST = 40


def differing_keys(runs):
    names = dict.fromkeys(name for run in runs for name in run.config)
    return [name for name in names
            if name not in OWN and len({run.config.get(name) for run in runs}) > 1]


def number(value, form):
    return "-" if value is None else format(value, form)


def row(run, tasks, tested):
    result = run.best_eval
    return [run.name, str(run.last_step) + ("" if run.summary else " (no end)"), number(result.get("auc"), ".5f"),
            number(result.get("log_loss"), ".5f"),
            *(number(run.tasks.get(task, {}).get("auc"), ".5f") for task in tasks),
            *([number(run.summary.get("test", {}).get("auc"), ".5f")] * tested),
            number(run.samples_per_second, ",.0f")]


def shortened(text):
    return text if len(text) <= WIDEST else text[:WIDEST - 3] + "..."


def table(runs):
    """The lines. Keys that differ are columns if they fit. Otherwise each has a line below, with the runs' values."""
    tested = any("test" in run.summary for run in runs)
    tasks = list(dict.fromkeys(task for run in runs for task in run.tasks))
    rows = [["run", "steps", "AUC", "log loss", *(f"AUC {task}" for task in tasks), *["test AUC"] * tested,
             "samples/s"]]
    rows += [row(run, tasks, tested) for run in runs]
    values = {key: [shortened(run.config.get(key, "-")) for run in runs] for key in differing_keys(runs)}
    columns = [[key, *texts] for key, texts in values.items()]
    lines = aligned([cells + [column[i] for column in columns] for i, cells in enumerate(rows)])
    if max(map(len, lines)) <= shutil.get_terminal_size((100, 0)).columns:
        return lines
    return aligned(rows) + [""] + [f"{key}: {' | '.join(texts)}" for key, texts in values.items()]


def aligned(rows):
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(cells, widths))).rstrip() for cells in rows]


def draw(runs):
    plot = figures.pyplot()
    figure, panels = plot.subplots(1, 3, figsize=(15, 4.5))
    for run in runs:
        for panel, lines, key in zip(panels, (run.steps, run.evals, run.steps), ("loss", "auc", "samples_per_second")):
            figures.curve(panel, lines, key, run.name)
    for panel, title in zip(panels, ("training loss", "AUC", "samples/s")):
        panel.set(xlabel="step", ylabel=title)
        panel.grid(alpha=0.3)
    panels[2].set_ylim(bottom=0)
    panels[0].legend()
    figure.tight_layout()
    return figure


def run(words):
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


def name_apart(runs):
    """Runs whose folders have one name are called by their paths."""
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            run.name = run.folder


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
