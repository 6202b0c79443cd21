"""Files that are written: one writer each, and whole or not at all."""
import contextlib
import fcntl
import os
import re
import secrets
import weakref

from .values import DatasetError, WriteError


class Lock:
    """Keeps a file to one writer, until release() or the end of the process. A hidden file beside it has the lock."""

    def __init__(self, path):
        folder, name = os.path.split(os.path.abspath(path))
        self.name = os.path.join(os.path.realpath(folder), f".{name[:200]}.lock")
        while True:
            handle = os.open(self.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            held = True
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
                os.close(handle)
                raise DatasetError(f"{path}: is being written by another program (process {holder or 'unknown'}); let "
                                   "it end, or name another file") from None
            except OSError:
                held = False  # a file system without locks
            if self.in_place(handle):
                break
            os.close(handle)  # its holder has removed it
        with contextlib.suppress(OSError):  # a full disk
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        if held:
            remove_interrupted(folder, name)
        self.release = weakref.finalize(self, release, handle, self.name, os.getpid())

    def in_place(self, handle):
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.name, follow_symlinks=False))
        except FileNotFoundError:
            return False


def release(handle, name, process):
    if process == os.getpid():  # not in a forked child
        with contextlib.suppress(OSError):
            os.unlink(name)
    os.close(handle)


def partial_name(path):
    """A new name in the file's folder that nobody can foresee."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{name[:200]}.{secrets.token_hex(8)}.partial")


def remove_interrupted(folder, name):
    """Removes the partial files of killed writers. No other may be writing."""
    is_partial = re.compile(re.escape(name[:200]) + r"\.[0-9a-f]{16}\.partial").fullmatch
    with contextlib.suppress(OSError):
        for found in filter(is_partial, os.listdir(folder)):
            os.unlink(os.path.join(folder, found))


def write_text(path, write):
    """write(file) to a new file that gets its name when it is whole and synced."""
    path = os.fspath(path)
    partial = partial_name(path)
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise WriteError(f"{path}: cannot write: {error.strerror}") from None
    try:
        with open(handle, "w", encoding="utf-8") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise WriteError(f"{path}: cannot write: {error.strerror}") from None
    finally:
        remove(partial)
    sync_folder(os.path.dirname(path) or ".")


def remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def sync_folder(folder):
    """The name is safe after this. A folder may be writable but not readable."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    os.close(handle)
