"""Makes dataset files of CSV, TSV, Parquet and JSON lines by a schema: `dlrm-import`, and `dlrm-data import`
(docs/import.md)."""
import gc
import os
import sys

from ..endings import need
from ..places import HOME
from .guard import guarded

# Where pip installs the library of the inner loops, where a build in the sources has it, and where CMake installs it.
FOLDERS = (os.path.dirname(os.path.abspath(__file__)),
           *(os.path.join(HOME, "build", preset, "lib", "dlrm") for preset in ("cpu", "cuda", "simt")),
           os.path.join(HOME, "..", "..", "lib", "dlrm"))


def need_packages() -> None:
    need(numpy="NumPy", h5py="h5py", yaml="PyYAML", pyarrow="pyarrow")


def start() -> int:
    need_packages()
    from .command import main as imported
    gc.freeze()
    gc.enable()
    return imported(sys.argv[1:])


def main() -> int:
    if sys.argv[1:2] == ["--groups"]:  # dlrm-train asks
        need_packages()
        from .groups import main as served
        return served(sys.argv[2:])
    gc.disable()  # none of what is loaded is garbage
    libraries = [os.path.join(folder, "libdlrm_import.so") for folder in FOLDERS]
    found = next(filter(os.path.exists, libraries), None)
    if found:
        os.environ.setdefault("DLRM_IMPORT_LIBRARY", found)
    return guarded(start)  # which loads the packages in the child process


if __name__ == "__main__":
    sys.exit(main())
