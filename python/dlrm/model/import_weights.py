"""Makes a checkpoint for `dlrm-train --init-from` of weights that another program has trained.

    dlrm-train CONFIG --set train.steps=0 --set checkpoint.at_end=true \\
        --set checkpoint.directory=initial --set output.directory=initial_run
    python3 -m dlrm.model.import_weights WEIGHTS initial imported [--names NAMES.yaml]
    dlrm-train CONFIG --init-from imported

The first command saves the model of CONFIG with its initial weights. This program copies that
checkpoint and replaces its weights by those of WEIGHTS, one of

- MODEL.npz of dlrm-export
- a .pt file of facebookresearch/dlrm (--save-model): emb_l.K is the table number K of CONFIG
- any .pt file with a state dict, and --names: a map from names here ("mlp/top/0/weight") to names
  there. Weights that the map leaves out keep their initial values.

Shapes must agree. docs/model.md lists the names here. Needs NumPy, h5py and PyYAML, and PyTorch for .pt.
"""
from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import zipfile

from ..endings import Parser, need, program

need(numpy="NumPy", h5py="h5py", yaml="PyYAML")
import h5py
import numpy as np
import yaml

from ..dataset.crc32c import crc32c
from . import trained
from .trained import ModelError

RANK, OFFSET = 5, 6  # fields of a piece in /layout/pieces: tensor, rows, columns, rank, offset


def read_arrays(path):
    if path.endswith(".npz"):
        try:
            with np.load(path) as file:
                return {name: file[name] for name in file.files if name != "model"}
        except (ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
            raise ModelError(f"{path}: is no .npz file of arrays, or a damaged one: {error}") from None
    try:
        import torch
    except ImportError:
        raise ModelError(f"{path} needs the Python package torch: pip install torch") from None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # of zip, pickle or PyTorch
        raise ModelError(f"{path}: PyTorch cannot read weights from it ({type(error).__name__}). A file that has more "
                         "than tensors and plain values is not read, as it could run code; save "
                         "model.state_dict() by torch.save") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else None
    if not isinstance(state, dict):
        raise ModelError(f"{path}: is no state dict, a map from names to tensors; save model.state_dict()")
    found = {name: value.detach().float().numpy() for name, value in state.items()
             if isinstance(name, str) and isinstance(value, torch.Tensor) and not value.is_sparse}
    if not found:
        raise ModelError(f"{path}: has no tensors by name; save model.state_dict()")
    return found


def facebook_names(model):
    """Names of facebookresearch/dlrm by names here. An activation follows each layer, so layers have even numbers."""
    names = {f"tables/{table}/weight": f"emb_l.{k}.weight" for k, table in enumerate(model.tables)}
    if model.tasks:
        raise ModelError("the model has several tasks, and that of facebookresearch/dlrm one label: give --names")
    for mlp, there in (("mlp/bottom", "bot_l"), ("mlp/top", "top_l")):
        for i in range(len(model.layers(mlp))):
            for kind in ("weight", "bias"):
                names[f"{mlp}/{i}/{kind}"] = f"{there}.{2 * i}.{kind}"
    return names


def names_for(model, arrays, path):
    if path:
        try:
            with open(path, encoding="utf-8") as file:
                names = yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ModelError(f"{path}: is not YAML: {error}") from None
        if not isinstance(names, dict) or not all(isinstance(name, str) for pair in names.items() for name in pair):
            raise ModelError(f"{path}: is not a map from names to names")
        return names
    if any(re.match(r"emb_l\.\d+\.weight", name) for name in arrays):
        return facebook_names(model)
    return {name: name for name in model.arrays}


def chosen(model, arrays, names):
    """The new weights by names here. Every shape is checked before anything is written."""
    weights = {}
    for here, there in names.items():
        if here not in model.arrays:
            raise ModelError(f"{here}: the model has no such weights")
        if there not in arrays:
            raise ModelError(f"{there}: not among the given weights, which are to replace {here}")
        new, old = arrays[there], model.arrays[here]
        if new.shape != old.shape:
            raise ModelError(f"{there} is {list(new.shape)}, but {here} is {list(old.shape)}")
        if not np.isfinite(new).all():
            raise ModelError(f"{there} has values that are not finite")
        weights[here] = np.ascontiguousarray(new, np.float32)
    return weights


def replace_weights(folder, weights):
    """Writes the pieces of the rank files, and the checksums of pieces, files and the index."""
    index = os.path.join(folder, "index.h5")
    with h5py.File(index, "r+") as file:
        tensors = file.attrs["tensors"].strip().split("\n")
        pieces = file["layout/pieces"][()].reshape(-1, 7)
        crcs, files = file["layout/piece_crcs"][()], file["layout/files"][()].reshape(-1, 2)
        for rank in range(len(files)):
            data = np.memmap(os.path.join(folder, f"rank_{rank:05d}.h5"), np.uint8, "r+")
            for i in np.flatnonzero(pieces[:, RANK] == rank):
                tensor, r0, r1, c0, c1 = pieces[i][:RANK]
                array = weights.get(tensors[tensor].strip("/"))
                if array is None:
                    continue
                part = np.ascontiguousarray(array[r0:r1, c0:c1] if array.ndim == 2 else array[r0:r1])
                begin = pieces[i][OFFSET]
                data[begin:begin + part.nbytes] = part.view(np.uint8).reshape(-1)
                crcs[i] = crc32c(part)
            data.flush()
            files[rank] = [data.size, crc32c(data)]
        file["layout/piece_crcs"][...] = crcs
        file["layout/files"][...] = files.reshape(-1)
    data = np.fromfile(index, np.uint8)
    with open(os.path.join(folder, "index.crc"), "w", encoding="utf-8") as file:
        file.write(f"crc32c {crc32c(data):08x} bytes {data.size}\n")


def make(args):
    arrays = read_arrays(args.weights)
    source = trained.checkpoint_folder(args.initial)
    target = os.path.join(args.out, os.path.basename(os.path.normpath(source)))
    if os.path.exists(target):
        raise ModelError(f"{target} exists already")
    model = trained.load(source)
    weights = chosen(model, arrays, names_for(model, arrays, args.names))
    unfinished = os.path.join(args.out, ".tmp_" + os.path.basename(target))
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        shutil.copytree(source, unfinished)
        replace_weights(unfinished, weights)
        os.rename(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(f"{target}: {len(weights)} of {len(model.arrays)} arrays replaced")


def run(words: list[str]) -> None:
    parser = Parser(prog="python3 -m dlrm.model.import_weights", description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help=".npz or .pt")
    parser.add_argument("initial", help="a checkpoint of the model, or the folder that contains it")
    parser.add_argument("out", help="the folder of the new checkpoint")
    parser.add_argument("--names", help="YAML: a map from names here to names in the file of weights")
    make(parser.parse_args(words))


main = program(run, (ValueError,))

if __name__ == "__main__":
    sys.exit(main())
