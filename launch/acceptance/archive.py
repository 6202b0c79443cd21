"""One file of logs and profiles, of a bounded size and in a bounded time; and the unpacking of a bundle."""
import os
import tarfile
import time

MOST_BYTES = 15 << 20  # of the archive
MOST_OF_A_FILE = 32 << 20
SKIPPED = (".h5", ".tmp")


def candidates(folder, without):
    found = []
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if os.path.join(path, name) not in without and name != "checkpoints"]
        for name in files:
            whole = os.path.join(path, name)
            if os.path.isfile(whole) and not os.path.islink(whole) and not name.endswith(SKIPPED):
                found.append((os.path.getsize(whole), whole))
    return [path for _, path in sorted(found)]


def pack(folder, target, seconds, without=()):
    """Packs the files of `folder`, the smallest first, into target. What no longer fits, in time or size, is named in
    the archive's LEFT_OUT."""
    end, left_out = time.monotonic() + seconds, []
    with tarfile.open(target + ".tmp", "w:gz", compresslevel=6) as archive:
        for path in candidates(folder, without):
            # Logs shrink to a quarter or less. A file that might not fit, or not in time, stays out.
            packed, size = os.path.getsize(target + ".tmp"), os.path.getsize(path)
            if time.monotonic() > end or packed + size / 4 > MOST_BYTES or size > MOST_OF_A_FILE:
                left_out.append(os.path.relpath(path, folder))
                continue
            archive.add(path, os.path.relpath(path, folder))
        if left_out:
            names = os.path.join(folder, "LEFT_OUT")
            with open(names, "w", encoding="utf-8") as file:
                file.write("\n".join(left_out) + "\n")
            archive.add(names, "LEFT_OUT")
    os.replace(target + ".tmp", target)


def unpack(bundle, folder):
    """Without xz: Python has the decompressor."""
    with tarfile.open(bundle, "r:xz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="tar")
        else:
            archive.extractall(folder)
