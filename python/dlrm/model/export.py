"""Exports a trained model, so that other programs can use it without dlrm-train.

    dlrm-export CHECKPOINT --to npz MODEL.npz
    dlrm-export CHECKPOINT --to torch MODEL.py
    dlrm-export CHECKPOINT --to onnx MODEL.onnx

CHECKPOINT is a folder step_*, or one that contains them, of which the best (checkpoint.keep_best) is
taken, or else the newest. The whole model must fit in memory.

npz: the arrays by their names in the checkpoint, and `model`, which describes the layers in JSON.
torch: MODEL.py has the class Model and no other dependency; MODEL.pt has its weights.
onnx: inputs `dense` [b, d] (unless the model takes no dense features) and ids [b, L] of each feature, filled up with
  -1, with `weights_of_<feature>` [b, L] if its ids have weights; output `probability` [b], with several tasks
  `probability_<task>` of each. Weights of 1 KiB or more are in MODEL.onnx.data.

Beside each is MODEL.preprocessing.gz, if the checkpoint says how records become samples.

docs/model.md has the formulas. Needs NumPy, h5py and PyYAML, and the package `torch` or `onnx` for
these formats.
"""
from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile

from ..endings import Parser, Refused, need, program

need(numpy="NumPy", h5py="h5py", yaml="PyYAML")
import numpy as np

from . import trained


def write_npz(model, path):
    with open(path, "wb") as file:
        np.savez(file, model=json.dumps(model.description()), **model.arrays)


def write_torch(model, path):
    from . import torch_format
    weights = os.path.splitext(path)[0] + ".pt"
    source = torch_format.source(model, os.path.basename(weights))
    replace_files({path: lambda name: write_text(name, source),
                   weights: lambda name: torch_format.save_weights(model, name)})


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def replace_files(writers):
    """Writes each file under another name in its folder, and renames all when they are complete."""
    written = {}
    try:
        for path, write in writers.items():
            handle, written[path] = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".export-")
            os.close(handle)
            write(written[path])
        umask = os.umask(0)
        os.umask(umask)
        for path in list(written):
            os.chmod(written[path], 0o666 & ~umask)
            os.replace(written.pop(path), path)
    finally:
        for name in written.values():
            os.unlink(name)


def write_onnx(model, path):
    from . import onnx_format
    onnx_format.save(model, path)


def write_preprocessing(model, path):
    """What is there of another model does not stay."""
    name = os.path.splitext(path)[0] + ".preprocessing.gz"
    if model.preprocessing:
        replace_files({name: lambda partial: write_bytes(partial, model.preprocessing)})
    elif os.path.exists(name):
        os.unlink(name)


def write_bytes(path, content):
    with open(path, "wb") as file:
        file.write(content)


FORMATS = {"npz": (".npz", None, lambda model, path: replace_files({path: lambda n: write_npz(model, n)})),
           "torch": (".py", "torch", write_torch),
           "onnx": (".onnx", "onnx", write_onnx)}


def run(words: list[str]) -> None:
    parser = Parser(prog="dlrm-export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--to", choices=FORMATS, required=True, help="format of the file")
    parser.add_argument("out", help="the file to write")
    args = parser.parse_args(words)
    ending, package, write = FORMATS[args.to]
    if not args.out.endswith(ending):
        raise Refused(f"{args.out}: --to {args.to} writes a file whose name ends in {ending}")
    if package:
        try:
            importlib.import_module(package)
        except ImportError:
            raise Refused(f"--to {args.to} needs the Python package {package}: pip install {package}") from None
    model = trained.load(args.checkpoint)
    write(model, args.out)
    write_preprocessing(model, args.out)


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
