#!/usr/bin/env python3
"""Wrong datasets, dictionaries and checkpoints: the exit code and the whole text of each error, compared with
provoked_errors.json.

    provoked_files_test.py FOLDER/OF/PROGRAMS [--update]"""
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np

from provoking import ROOT, Provoking, main


def crc32c(data):
    """Castagnoli's CRC."""
    total = 0xffffffff
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0x82f63b78 if total & 1 else 0)
    return total ^ 0xffffffff


def flip(folder):
    """Changes one byte of a value."""
    with open(folder + "/rank_00000.h5", "r+b") as file:
        file.seek(-100, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-100, os.SEEK_END)
        file.write(bytes([byte ^ 1]))


class ProvokedFiles(Provoking):
    def test_files_of_datasets(self):
        """Those that h5py wrote, and the good one with each part changed, against `dlrm-data inspect`."""
        made = self.path("made")
        os.makedirs(made, exist_ok=True)
        subprocess.run([sys.executable, os.path.join(ROOT, "tests/data/make_datasets.py"), made], check=True)
        cases = {}
        for name in sorted(os.listdir(made)):
            code, _ = self.run_program(["dlrm-data", "inspect", f"made/{name}"])
            if code:
                cases[name] = ["dlrm-data", "inspect", f"made/{name}"]
        self.assertGreater(len(cases), 20)
        self.check("files of datasets", cases)

    def test_samples_of_datasets(self):
        def damage(change):
            def make():
                with h5py.File(self.path("made.h5"), "w") as file:
                    rows = {"tiny": 3, "middle": 500, "left": 4001, "right": 4001}
                    file.attrs.update(format="dlrm-dataset", version=1, samples=6)
                    file["label"], file["dense"] = np.zeros(6, np.float32), np.ones((6, 4), np.float32)
                    for name, hotness in {"tiny": 1, "middle": 3, "left": 1, "right": 2}.items():
                        ids = file.create_dataset(f"sparse/{name}/ids", data=np.zeros(6 * hotness, np.int32))
                        ids.attrs.update(rows=rows[name], hotness=hotness)
                    change(file)
            return make

        def put(name, at, value):
            def change(file):
                file[name][at] = value
            return damage(change)

        def weigh(file):
            file["weight"] = np.array([1, 1, -1, 1, 1, 1], np.float32)

        def bag(*offsets):
            def change(file):
                del file["sparse/tiny/ids"]
                file.create_dataset("sparse/tiny/ids", data=np.zeros(4, np.int64)).attrs["rows"] = 3
                file["sparse/tiny/offsets"] = np.array(offsets, np.int64)
            return damage(change)

        def attribute(name, key, value):
            def change(file):
                file[name].attrs[key] = value
            return damage(change)

        makes = {"label": put("label", 4, 1.5), "label nan": put("label", 5, np.nan), "dense": put("dense", (3, 2), np.inf),
                 "id": put("sparse/middle/ids", 7, 500), "negative id": put("sparse/left/ids", 5, -1), "weight": damage(weigh),
                 "falling offsets": bag(0, 1, 3, 2, 3, 4, 4), "first offset": bag(1, 1, 2, 2, 3, 4, 4),
                 "last offset": bag(0, 1, 2, 2, 3, 3, 3), "rows": attribute("sparse/left/ids", "rows", 4002)}
        cases = {}
        for name, make in makes.items():
            cases[name] = (make, "dlrm-data inspect made.h5")
            cases[name + ", trained"] = (make, "dlrm-train config.yaml --set train.steps=3 --set data.train=made.h5 --set "
                                         "data.test= --set eval.at_end=false --set train.global_batch_size=6 --set "
                                         "data.shuffle=false --set output.directory=other --set checkpoint.directory=none "
                                         "--set train.threads=1")
            if "offset" in name:
                cases[name + ", shuffled"] = (make, "dlrm-data shuffle made.h5 --output mixed.h5 --memory 1MiB")
        del cases["rows"]
        self.check("samples of datasets", cases)
        good = damage(lambda file: None)
        train = "dlrm-train config.yaml --set train.steps=3 --set output.directory=other --set checkpoint.directory=none "
        self.check("datasets and configs", {words: (good, train + words) for words in (
            "--set data.train=none.h5", "--set data.train=config.yaml", "--set data.train=ckpt",
            "--set model.dense_features=5", "--set model.tables.tiny.name=tyni", "--set model.tables.middle.hotness=2",
            "--set model.tables.middle.rows=400", "--set data.train=[train.h5,made.h5]", "--set data.source=criteo",
            "--set data.test=none.h5", "--set data.train= --set data.source=hdf5",
            "--predict out.txt", "--predict none/out.csv", "--profile ckpt", "--profile none/t.json", "--ranks 2",
            "--host-memory 1", "--set comm=nccl --device cpu",
            "--set eval.patience=2 --set data.test=", "--set output.directory=config.yaml",
            "--set memory.tier=cached --set memory.cached.middle=5% --set memory.cached.backing=host")})

    def test_dictionaries(self):
        line = "\t".join(["1"] * 14 + ["0000000a"] * 26) + "\n"

        def dictionary(change):
            def make():
                self.write("log.tsv", line * 3)
                with h5py.File(self.path("d.h5"), "w") as file:
                    file.attrs.update(format="dlrm-dictionary", version=1, first_id=1)
                    for at in range(1, 27):
                        values = file.create_dataset(f"C{at}/values", data=np.arange(3, dtype=np.uint32))
                        values.attrs["missing_id"] = 0
                    change(file)
            return make

        def attribute(name, key, value):
            def change(file):
                file[name].attrs[key] = value
            return change

        def replace(data):
            def change(file):
                del file["C5/values"]
                if data is not None:
                    file.create_dataset("C5/values", data=data).attrs["missing_id"] = 0
            return change

        self.check("dictionaries", {name: (dictionary(change), "dlrm-data criteo log.tsv --output log.h5 --dictionary d.h5")
                                    for name, change in {
            "format": attribute("/", "format", "other"), "version": attribute("/", "version", 2),
            "first_id": attribute("/", "first_id", 0), "missing_id": attribute("C7/values", "missing_id", 4),
            "negative missing_id": attribute("C7/values", "missing_id", -1), "no values": replace(None),
            "two dimensions": replace(np.zeros((2, 2), np.uint32)), "twice": replace(np.array([4, 4], np.uint32)),
            "text": replace(np.array([b"a", b"b"]))}.items()})

    def test_checkpoints(self):
        """An index whose checksum is right, with each part changed, and rank files that are damaged."""
        wrong = self.path("wrong/step_000000002")

        def fresh(change=None):
            shutil.rmtree(self.path("wrong"), ignore_errors=True)
            shutil.copytree(self.path(self.checkpoint), wrong)
            if change:
                change(wrong)

        def index(change):
            def make():
                fresh()
                path = os.path.join(wrong, "index.h5")
                with h5py.File(path, "r+") as file:
                    change(file)
                with open(path, "rb") as file:
                    data = file.read()
                with open(os.path.join(wrong, "index.crc"), "w", encoding="utf-8") as file:
                    file.write(f"crc32c {crc32c(data):08x} bytes {len(data)}\n")
            return make

        def attribute(name, value):
            def change(file):
                file.attrs[name] = value
            return index(change)

        def without(name):
            def change(file):
                del file.attrs[name]
            return index(change)

        def numbers(name, change):
            def make(file):
                values = file["layout/" + name][()]
                del file["layout/" + name]
                file["layout/" + name] = np.asarray(change(values))
            return index(make)

        def put(at, value):
            def change(values):
                values[at] = value
                return values
            return change

        train = ("dlrm-train config.yaml --set data.test= --set eval.at_end=false --set output.directory=other --set "
                 "checkpoint.directory=none ")
        cases = {}
        with h5py.File(self.path(self.checkpoint + "/index.h5")) as file:
            names = file.attrs["tensors"]
        names = names.decode() if isinstance(names, bytes) else names
        lines = names.splitlines()
        for name in ("format", "version", "step", "samples", "epoch", "batch", "seed", "config", "plan", "tensors"):
            cases["no " + name] = without(name)
        for name, value in (("format", "other"), ("version", 2), ("step", 3), ("step", -1), ("samples", -1), ("epoch", 3),
                            ("batch", 3), ("seed", "a"), ("tensors", names + "more"), ("tensors", "\n".join(lines[1:]) + "\n"),
                            ("tensors", "\n".join(lines[1::-1] + lines[2:]) + "\n"), ("tensors", names[1:])):
            cases[f"{name} {value!r:.40}"] = attribute(name, value)
        for at in range(3):
            for value in (0, 3, -1, 2 ** 62):
                cases[f"shape {at} {value}"] = numbers("shapes", put(at, value))
        for at in range(7):
            for value in (-1, 3, 2 ** 40):
                cases[f"piece {at} {value}"] = numbers("pieces", put(at, value))
        for at in range(2):
            for value in (-1, 1, 2 ** 40):
                cases[f"file {at} {value}"] = numbers("files", put(at, value))
        for name in ("shapes", "pieces", "files", "piece_crcs"):
            cases[name + " short"] = numbers(name, lambda values: values[:-1])
            cases[name + " floats"] = numbers(name, lambda values: values.astype(np.float32))
        cases["the same place"] = numbers("pieces", lambda values: put(13, values[6])(values))
        cases["crc"] = numbers("piece_crcs", put(0, 7))
        cases["no crc"] = numbers("piece_crcs", put(0, 2 ** 40))
        for change in (lambda f: os.remove(f + "/index.crc"), lambda f: os.remove(f + "/index.h5"),
                       lambda f: os.remove(f + "/rank_00000.h5"), lambda f: os.truncate(f + "/rank_00000.h5", 5000),
                       lambda f: os.truncate(f + "/index.h5", 5000), flip):
            cases[f"file {len(cases)}"] = lambda change=change: fresh(change)
        programs = {name: (make, train + "--resume=wrong/step_000000002") for name, make in cases.items()}
        programs |= {name + ", searched": (cases[name], train + "--init-from=wrong") for name in list(cases)[::9]}
        self.check("checkpoints", programs)
        self.check("other models", {words: (fresh, train + "--init-from=wrong/step_000000002 --set " + words) for words in (
            "model.bottom_mlp=[17,8]", "model.tables.big.rows=4002", "model.tables.tiny.name=other",
            "model.top_mlp=[16,4,1]", "model.interaction=cross")})
        self.check("predictions", {words: (fresh, "dlrm-infer " + words) for words in (
            "none", "wrong/step_000000003", "wrong/step_000000002/index.h5", "config.yaml", ". --tables fp8",
            "wrong --host 127.0.0.1", "wrong --port 0 --host 300.1.1.1")})


if __name__ == "__main__":
    main()
