"""Makes dataset files of CSV, TSV, Parquet and JSON lines by a schema: `dlrm-import`, and `dlrm-data import`
(docs/import.md)."""
import gc
import sys

from ..endings import need
from .guard import guarded


def need_packages() -> None:
    need(numpy="NumPy", h5py="h5py", yaml="PyYAML", pyarrow="pyarrow")


def start() -> int:
    need_packages()
    from .command import main as imported
    gc.freeze()
    gc.enable()
    return imported(sys.argv[1:])


def main() -> int:
    if sys.argv[1:2] in (["--groups"], ["--columns"]):  # dlrm-train and dlrm-infer ask
        need_packages()
        if sys.argv[1] == "--groups":
            from .groups import main as served
        else:
            from .record_columns import main as served
        return served(sys.argv[2:])
    gc.disable()  # none of what is loaded is garbage
    return guarded(start)  # which loads the packages in the child process


if __name__ == "__main__":
    sys.exit(main())
