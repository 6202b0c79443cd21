"""How programs end: every failure is one line, and exit code 2 (bad input) or 3 (a failure while running)."""
import signal
import sys

from .values import DatasetError, WriteError


def exit_code(function, bad=()):
    """That of function(). `bad`: more exceptions that name bad input."""
    code = 3
    try:
        return function() or 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except WriteError as error:
        text = str(error)
    except (DatasetError, *bad) as error:
        code, text = 2, str(error)
    except MemoryError:
        text = "out of memory"
    except OSError as error:
        code = 2 if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)) else 3
        text = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    text = " ".join(text.split())  # names of columns may be anything
    print(f"error: {''.join(c if c.isprintable() else '?' for c in text)[:2000]}", file=sys.stderr)
    return code
