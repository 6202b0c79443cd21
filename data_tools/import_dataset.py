#!/usr/bin/env python3
"""Makes dataset files of CSV, TSV, Parquet and JSON lines by a schema: what `dlrm-data import` runs (docs/import.md).

    import_dataset.py SCHEMA.yaml IN... --output OUT.h5
"""
import gc
import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
# Where launch/install_deps.sh puts packages that Debian does not have.
sys.path.append(os.path.join(os.path.dirname(HERE), "build", "python"))


def missing_package():
    for module, package in (("numpy", "NumPy"), ("h5py", "h5py"), ("yaml", "PyYAML"), ("pyarrow", "pyarrow")):
        try:
            importlib.import_module(module)
        except ImportError as error:
            reason = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
            return (f"{package} is missing for {sys.executable}{reason}: run launch/install_deps.sh import (or pip install "
                    "pyarrow h5py PyYAML), or choose another Python with DLRM_PYTHON")
    return None


def start():
    problem = missing_package()
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    from dlrm_import.command import main
    gc.freeze()
    gc.enable()
    return main(sys.argv[1:])


if __name__ == "__main__":
    gc.disable()  # none of what is loaded is garbage
    from dlrm_import.guard import guarded
    sys.exit(guarded(start))  # which loads the packages in the child process
