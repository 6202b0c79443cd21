"""What the programs that draw share."""
import os
import sys


def fail(problem):
    """Ends the program with one line and exit code 2."""
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(2)


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
