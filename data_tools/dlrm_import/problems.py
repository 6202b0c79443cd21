"""What can be wrong with an import, in one line each."""
import signal
import sys

from dlrm_dataset import DatasetError
from dlrm_dataset.values import WriteError


class ImportProblem(DatasetError):
    """One line: what is wrong, where, and what would be right."""


class BadRecord(ImportProblem):
    """A record that cannot be used. --skip-malformed leaves such records out."""

    def __init__(self, where, column, value, problem):
        of_column = "" if column is None else f"column {column}: "
        super().__init__(f"{where}: {of_column}{shown(value)}{problem} (--skip-malformed leaves such records out)")


def guarded_main(function):
    """The exit code of function(). What it raises is one line: 2 for bad input, 3 for a failure while running."""
    code = 3
    try:
        return function() or 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except DatasetError as error:
        code, text = 3 if isinstance(error, WriteError) else 2, str(error)
    except MemoryError:
        text = "out of memory"
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    line = " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())
    print(f"error: {line[:2000]}", file=sys.stderr)  # names of columns may be anything
    return code


def shown(value):
    """A value as an error shows it: short, and without control characters."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    short = "".join(c if c.isprintable() else "?" for c in text[:40])
    return f"'{short}{'...' if len(text) > 40 else ''}' "
