#!/usr/bin/env python3
"""Makes dataset files of CSV, TSV, Parquet and JSON lines by a schema: what `dlrm-data import` runs (docs/import.md).

    import_dataset.py SCHEMA.yaml IN... --output OUT.h5
"""
import gc
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from endings import need


def start():
    need("import", numpy="NumPy", h5py="h5py", yaml="PyYAML", pyarrow="pyarrow")
    from dlrm_import.command import main
    gc.freeze()
    gc.enable()
    return main(sys.argv[1:])


if __name__ == "__main__":
    gc.disable()  # none of what is loaded is garbage
    from dlrm_import.guard import guarded
    sys.exit(guarded(start))  # which loads the packages in the child process
