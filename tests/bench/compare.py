#!/usr/bin/env python3
"""Compares training steps of dlrm-train with DLRM in PyTorch on this machine: same shapes, in turn, several rounds.

    launch/install_deps.sh build peers
    build/peers/bin/python3 tests/bench/compare.py --isa avx512 --output compare.json [--rows 'kaggle-*,dle-2048']

Adds what it measures to the JSON file, and prints the file's tables. Each row of a table is a model, a precision and a
batch size. Needs an idle machine and some 8 GiB of memory.
"""
import argparse
import fnmatch
import importlib.metadata
import json
import os
import sys
import tempfile
import time

import compare_report
import contestants
import model_shapes

MODELS = {"kaggle": "configs/bench/kaggle.yaml", "lookup": "configs/bench/lookup.yaml",
          "dle": "configs/bench/dle_mlp.yaml"}
SAMPLES = {"kaggle": 1 << 20, "lookup": 1 << 16, "dle": 1 << 19}  # of the datasets: 60 to 200 MB
ROWS = ([("kaggle", "fp32", batch) for batch in (8, 32, 128, 512, 2048)] +
        [("lookup", "fp32", 256), ("dle", "fp32", 2048)] +
        [("kaggle", "bf16", 512), ("kaggle", "bf16", 2048), ("dle", "bf16", 2048)])
# What holds dlrm-train, oneDNN, OpenBLAS, PyTorch, MKL, FBGEMM and the compiler of torch.compile to a set.
LIMITS = {
    "avx2": {"DLRM_MAX_CPU_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell",
             "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
             "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3"},
    "avx512": {"DLRM_MAX_CPU_ISA": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "OPENBLAS_CORETYPE": "SkylakeX",
               "ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512",
               "FBGEMM_ENABLE_INSTRUCTIONS": "AVX512", "TORCHINDUCTOR_CPP_MARCH": "native"}}


def name_of(row):
    model, precision, batch = row
    return f"{model}-{batch}" if precision == "fp32" else f"{model}-{precision}-{batch}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--isa", choices=LIMITS, required=True, help="the instruction set that both sides may use")
    parser.add_argument("--rows", default="*", help="with * and ?, separated by commas: " + ", ".join(map(name_of, ROWS)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.6, help="of each measurement, after a warm-up")
    parser.add_argument("--programs", default=os.path.join(contestants.ROOT, "build/cpu/bin"))
    parser.add_argument("--data", default=os.path.join(tempfile.gettempdir(), "dlrm-compare"),
                        help="folder for the datasets")
    parser.add_argument("--output", required=True, help="JSON to extend; rows that it has are replaced")
    return parser.parse_args()


class Comparison:
    def __init__(self, options):
        self.options, self.result = options, {}
        if os.path.exists(options.output):
            with open(options.output, encoding="utf-8") as file:
                self.result = json.load(file)
        self.own = self.result.setdefault(options.isa, {"limits": [], "rows": {}})

    def run(self, rows):
        for model in dict.fromkeys(row[0] for row in rows):
            self.measure(model, [row for row in rows if row[0] == model])

    def measure(self, model, rows):
        from pytorch_dlrm import KINDS, Peer
        config = os.path.join(contestants.ROOT, MODELS[model])
        shapes, data = model_shapes.load(config), self.dataset(model, config)
        peer = Peer(shapes, KINDS)
        versions = {name: importlib.metadata.version(name) for name in ("torch", "fbgemm-gpu-cpu")}
        found = {row: {"model": model, "precision": row[1], "batch": row[2], "bytes": shapes.bytes_per_sample(),
                       "flops": shapes.flops_per_sample(), "date": time.strftime("%Y-%m-%d"), "versions": versions,
                       "ours": [], "shares": [], "peers": {}} for row in rows}
        for _ in range(self.options.rounds):
            program = os.path.join(self.options.programs, "dlrm-bench")
            limits = json.loads(contestants.run([program, "limits", "--seconds", "0.3"]))
            self.own["limits"].append(limits)
            for row, own in found.items():
                _, precision, batch = row
                most = compare_report.limit(own, limits)
                settings = {"data.train": data, "data.source": "hdf5", "train.global_batch_size": batch,
                            "train.precision": precision}
                steps = max(5, int(self.options.seconds * max(own["ours"], default=0.5 * most) / batch))
                own["ours"].append(contestants.warm_rate(self.options.programs, config, settings, steps))
                own["shares"].append(own["ours"][-1] / most)
                for kind in KINDS:
                    for threads in (1, 2):
                        rate = peer.measure(kind, precision, batch, threads, self.options.seconds)["samples_per_second"]
                        own["peers"].setdefault(kind, {}).setdefault(threads, []).append(rate)
                print(name_of(row), *(f"{key} {value}" for key, value in own.items() if key in ("ours", "shares", "peers")),
                      file=sys.stderr, flush=True)
            self.own["rows"].update((name_of(row), own) for row, own in found.items())
            with open(self.options.output, "w", encoding="utf-8") as file:
                json.dump(self.result, file, indent=1)

    def dataset(self, model, config):
        """A file of uniform ids in the page cache."""
        os.makedirs(self.options.data, exist_ok=True)
        path = os.path.join(self.options.data, f"{model}-{SAMPLES[model]}.h5")
        if not os.path.exists(path):
            contestants.run([os.path.join(self.options.programs, "dlrm-data"), "synth", "--config", config, "--alpha", "0",
                             "--samples", str(SAMPLES[model]), "--output", path])
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass
        return path


def main():
    options = arguments()
    os.environ.update(LIMITS[options.isa])  # read when PyTorch is loaded, and by our programs
    rows = [row for row in ROWS if any(fnmatch.fnmatchcase(name_of(row), p) for p in options.rows.split(",")) and
            (row[1] == "fp32" or options.isa != "avx2")]
    if not rows:
        raise SystemExit(f"--rows {options.rows}: no such row; --help names them")
    comparison = Comparison(options)
    comparison.run(rows)
    print(compare_report.markdown(comparison.result))


if __name__ == "__main__":
    main()
