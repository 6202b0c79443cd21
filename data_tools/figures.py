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
        fail(f"--output {path}: {error.strerror}")
