"""Converts runs of dlrm-train for TensorBoard: every number of metrics.jsonl by step, and the config as text.

    python3 -m dlrm.runs.tensorboard RUN... [--output FOLDER]
    tensorboard --logdir FOLDER

RUN is a run's output.directory. Each becomes a folder of its name in FOLDER (default: tensorboard), in place of an
earlier one. Needs tensorboardX.
"""
from __future__ import annotations

import argparse
import datetime
import importlib
import os
import shutil
import sys
from typing import Any, Iterator

from ..endings import Parser, Refused, need, program
from .files import Run

NO_VALUES = ("step", "time")
EVENTS = "events.out.tfevents."


def writer_class() -> Any:
    need(tensorboardX="tensorboardX")
    return importlib.import_module("tensorboardX").SummaryWriter


def scalars(run: Run) -> Iterator[tuple[str, float, int, float | None]]:
    """Tag, value, step and time of each number of the run."""
    for part, lines in (("train", run.steps), ("eval", run.evals)):
        for line in lines:
            for name, value in flat(line):
                if name not in NO_VALUES and isinstance(value, (int, float)) and not isinstance(value, bool):
                    yield f"{part}/{name}", value, line["step"], seconds(line.get("time"))


def flat(line: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in line.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value


def seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def convert(run: Run, folder: str, writer: Any) -> None:
    """Writes the folder whole or not at all."""
    if os.path.lexists(folder) and not is_ours(folder):
        raise Refused(f"{folder}: exists, and holds more than TensorBoard's events: remove it, or choose another --output")
    partial = folder + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        events = writer(logdir=partial)
        for tag, value, step, time in scalars(run):
            events.add_scalar(tag, value, step, walltime=time)
        events.add_text("config", "".join(f"    {name}: {value}\n" for name, value in run.config.items()))
        events.close()
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(partial, folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise Refused(f"{folder}: cannot be written: {error.strerror}") from None


def is_ours(folder: str) -> bool:
    return os.path.isdir(folder) and all(name.startswith(EVENTS) for name in os.listdir(folder))


def run(words: list[str]) -> None:
    parser = Parser(prog="python3 -m dlrm.runs.tensorboard", description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--output", default="tensorboard", metavar="FOLDER")
    arguments = parser.parse_args(words)
    runs = [Run(folder) for folder in arguments.runs]
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise Refused(f"two runs are called {name}: convert them into two folders (--output)")
    writer = writer_class()
    for run in runs:
        convert(run, os.path.join(arguments.output, run.name), writer)
    print(f"{len(runs)} run{'s' if len(runs) != 1 else ''} in {arguments.output}: tensorboard --logdir {arguments.output}")


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
