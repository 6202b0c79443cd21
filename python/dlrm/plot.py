"""Draws a run of dlrm-train, or what dlrm-bench measured.

    dlrm-plot run RUN --output FIGURE.svg
    dlrm-plot batch-sweep FILE.json [MORE.json ...] --output FIGURE.svg
    dlrm-plot cache FILE.json [MORE.json ...] --output FIGURE.svg
    dlrm-plot feeding FILE.json --output FIGURE.svg

`dlrm-plot KIND --help` says what the figure shows. Figures end with .svg, .png or .pdf, and need matplotlib.
"""
from __future__ import annotations

import argparse
import sys

from .bench import batch_sweep, cache, feeding
from .endings import Parser, program
from .runs import plot

KINDS = {"run": plot.run, "batch-sweep": batch_sweep.run, "cache": cache.run, "feeding": feeding.run}


def run(words: list[str]) -> None:
    parser = Parser(prog="dlrm-plot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=f"one of {', '.join(KINDS)}")
    KINDS[parser.parse_args(words[:1]).kind](words[1:])


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
