"""How Python programs start and end: with the packages that they need, and every failure is one line and exit code 2
(bad input) or 3 (a failure while running)."""
import argparse
import importlib
import os
import signal
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENVIRONMENT = os.path.join(ROOT, "build", "venv")  # which launch/install_deps.sh makes


class Refused(Exception):
    """Bad input. One line: what is wrong, where, and what would be right."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message} (see {self.prog} --help)")


def need(group, **packages):
    """Imports modules. If one is missing, the program starts again in the environment of launch/install_deps.sh. If
    there is none, or it lacks the module too, the program ends: `group` has the package, which the value names."""
    for module, package in packages.items():
        try:
            importlib.import_module(module)
        except (ImportError, TypeError) as error:  # protobuf refuses generated code of other versions by TypeError
            python = os.path.join(ENVIRONMENT, "bin", "python3")
            within = os.path.realpath(sys.prefix) == os.path.realpath(ENVIRONMENT)
            if os.path.exists(python) and not within and "DLRM_PYTHON" not in os.environ:
                os.execv(python, [python, *sys.argv])
            absent = isinstance(error, ModuleNotFoundError) and error.name == module
            reason = "" if absent or not str(error) else f" ({error})"
            print_error(f"{sys.executable} has no {package}{reason}: install it with launch/install_deps.sh {group}, or "
                        "with pip")
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
