"""Runs an import in a child process. pyarrow crashes on some damaged files; the parent then says which it was."""
import mmap
import os
import signal
import sys

SIZE = 4096  # bytes of the name of the file that is being read
reading = mmap.mmap(-1, SIZE)  # shared with the child


def now_reading(path):
    """Notes the file, for the case that reading it is the end of this process."""
    reading.seek(0)
    reading.write(os.fsencode(path)[:SIZE - 1].ljust(SIZE, b"\0"))


def stop(number, _):
    """Unfinished files are removed on the way out."""
    sys.exit(128 + number)


def guarded(function):
    """The exit code of function() in a child process, and 2 with one line if a signal ends it."""
    sys.stdout.flush()
    sys.stderr.flush()
    now_reading("")
    child = os.fork()
    if child == 0:
        code = 1
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        try:
            code = function()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException as error:  # of the start, before there is a main()
            code = 3
            print(f"error: {type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except OSError:
                code = code or 3  # output to a full disk, or to a pipe that is closed
            os._exit(code)
    handlers = {number: signal.signal(number, lambda got, _: os.kill(child, got))
                for number in (signal.SIGTERM, signal.SIGHUP)}
    handlers[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the child, too
    _, status = os.waitpid(child, 0)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    if number in handlers:
        return 128 + number
    path = os.fsdecode(reading[:].rstrip(b"\0"))
    of_file = f"{path}: " if path else ""
    print(f"error: {of_file}the process that read it ended by {signal.Signals(number).name}: "
          f"{'out of memory?' if number == signal.SIGKILL else 'the file is damaged'}", file=sys.stderr)
    return 2
