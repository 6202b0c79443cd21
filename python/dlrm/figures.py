"""What the programs that draw share."""
from __future__ import annotations

import json
import os
from typing import Any, Callable, NoReturn

from .endings import Refused, need


def fail(problem: str) -> NoReturn:
    raise Refused(problem)


def read_json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        fail(f"{path}: no JSON: {error}")


def drawn(draw: Callable[[Any], Any], read: Any, program: str) -> Any:
    """draw(read), whose files `program` has written."""
    try:
        return draw(read)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        fail(f"not written by {program} --output: {type(error).__name__}: {error}")


def pyplot() -> Any:
    """matplotlib's interface for files. To be called before anything is computed: it may be missing."""
    need(matplotlib="matplotlib")
    import matplotlib.pyplot
    matplotlib.use("Agg")
    return matplotlib.pyplot


def curve(panel: Any, lines: list[dict[str, Any]], key: str, label: str | None = None) -> None:
    """Draws a value of metrics.jsonl by step, where it is not null."""
    lines = [line for line in lines if line.get(key) is not None]
    panel.plot([line["step"] for line in lines], [line[key] for line in lines], label=label,
               marker="o" if len(lines) < 20 else None)


def save(figure: Any, path: str) -> None:
    """Writes the figure whole or not at all."""
    ending = os.path.splitext(path)[1]
    known = sorted("." + name for name in figure.canvas.get_supported_filetypes())
    if ending not in known:
        fail(f"--output {path}: a figure ends with one of {' '.join(known)}")
    partial = f"{path}.partial{ending}"
    try:
        figure.savefig(partial, dpi=120)
        os.replace(partial, path)
    except OSError as error:
        if os.path.exists(partial):
            os.remove(partial)
        fail(f"--output {path}: {error.strerror}")
