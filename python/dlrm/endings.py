"""How programs start and end: with the packages that they need, and every failure is one line and exit code 2 (bad
input) or 3 (a failure while running)."""
import argparse
import importlib
import signal
import sys
import typing

Exceptions = typing.Tuple[typing.Type[BaseException], ...]


class Refused(Exception):
    """Bad input. One line: what is wrong, where, and what would be right."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        raise Refused(f"{message} (see {self.prog} --help)")


def need(**packages: str) -> None:
    """Imports modules. If one is missing, the program ends with the name of its package, the value."""
    for module, package in packages.items():
        try:
            importlib.import_module(module)
        except (ImportError, TypeError) as error:  # protobuf refuses generated code of other versions by TypeError
            absent = isinstance(error, ModuleNotFoundError) and error.name == module
            reason = "" if absent or not str(error) else f" ({error})"
            print_error(f"{sys.executable} has no {package}{reason}: install it with launch/install_deps.sh python, or "
                        "with pip")
            sys.exit(2)


def program(function: typing.Callable[[typing.List[str]], typing.Optional[int]], bad: Exceptions = ()) -> typing.Callable[[], int]:
    """A program of the function, which gets the words of the command line. Returns its exit code."""
    return lambda: exit_code(lambda: function(sys.argv[1:]), bad)


def exit_code(function: typing.Callable[[], typing.Optional[int]], bad: Exceptions = (), failed: Exceptions = ()) -> int:
    """That of function(). `bad`, `failed`: more exceptions whose texts name bad input, or a failure."""
    refused: Exceptions = (Refused, *bad)
    code = 3
    try:
        return function() or 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except failed as error:
        text = str(error)
    except refused as error:
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


def print_error(text: str) -> None:
    text = " ".join(text.split())  # names of columns may be anything
    print(f"error: {''.join(c if c.isprintable() else '?' for c in text)[:2000]}", file=sys.stderr)
