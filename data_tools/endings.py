"""How Python programs end: every failure is one line, and exit code 2 (bad input) or 3 (a failure while running)."""
import argparse
import importlib
import signal
import sys


class Refused(Exception):
    """Bad input. One line: what is wrong, where, and what would be right."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message} (see {self.prog} --help)")


def need(**packages):
    """Ends the program if a module cannot be imported. The value is the name of its package."""
    for module, package in packages.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            reason = "" if isinstance(error, ModuleNotFoundError) and error.name == module else f" ({error})"
            print_error(f"{sys.executable} has no {package}{reason}: install it with pip, or choose another Python")
            sys.exit(2)


def exit_code(function, bad=(), failed=()):
    """That of function(). `bad`, `failed`: more exceptions whose texts name bad input, or a failure."""
    code = 3
    try:
        return function() or 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except failed as error:
        text = str(error)
    except (Refused, *bad) as error:
        code, text = 2, str(error)
    except MemoryError:
        text = "out of memory"
    except OSError as error:
        code = 2 if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)) else 3
        text = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    print_error(text)
    return code


def print_error(text):
    text = " ".join(text.split())  # names of columns may be anything
    print(f"error: {''.join(c if c.isprintable() else '?' for c in text)[:2000]}", file=sys.stderr)
