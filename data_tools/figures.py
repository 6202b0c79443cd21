"""What the programs that draw share."""
import json
import os
import sys


def fail(problem):
    """Ends the program with one line and exit code 2."""
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(2)


def run(main):
    """Ends the program as main does. Every failure is one line, and 2 (bad input) or 3."""
    try:
        sys.exit(main() or 0)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else error)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        fail(f"the input is not what this program reads: {type(error).__name__}: {error}")
    except Exception as error:
        print(f"error: {type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(3)


def read_json(path):
    """The value in a JSON file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        fail(f"{path}: no JSON: {str(error).splitlines()[0]}")


def pyplot():
    """matplotlib's interface for files. Without matplotlib the program ends."""
    try:
        import matplotlib
    except ImportError:
        fail(f"{sys.executable} has no matplotlib: install it with launch/install_deps.sh plot "
             "(Debian's python3-matplotlib) or with pip")
    matplotlib.use("Agg")
    import matplotlib.pyplot
    return matplotlib.pyplot


def curve(panel, lines, key, label=None):
    """Draws a value of metrics.jsonl by step, where it is not null."""
    lines = [line for line in lines if line.get(key) is not None]
    panel.plot([line["step"] for line in lines], [line[key] for line in lines], label=label,
               marker="o" if len(lines) < 20 else None)


def save(figure, path):
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
