#!/usr/bin/env python3
"""How often the programs call the system and other libraries, and with how many bytes: files, memory, threads, products,
messages, compared with counted_calls.json. No result of a run depends on these numbers, so a lost optimisation, a
needless copy or one more read shows only here.

    counted_calls_test.py FOLDER/OF/PROGRAMS [--update]

Allocations of C++ are counted for the main thread, as what ten more steps need, because the start of a program changes
often. With --update the file is written anew."""
import json
import os
import re
import struct
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from pinned import UPDATE, Pinned  # noqa: E402

SHIM = os.path.join(HERE, "counted_calls.c")
# The argument is a number of bytes, and no address. Files that are written hold times and the numbers of processes.
SUMMED = {"read", "pread", "fallocate", "posix_fallocate", "copy_file_range", "mmap", "munmap", "crc32_iscsi",
          "crc32_gzip_refl", "MPI_Allgather", "MPI_Allreduce", "GOMP_parallel"}
BASE = """train:
  global_batch_size: 65
  steps: 20
  threads: 2
  sparse_optimizer: {type: adagrad, lr: 0.05}
eval: {at_end: true}
checkpoint: {directory: ckpt}
output: {directory: run, metrics_every: 1}
"""
# name: ranks, settings. Each trains 20 and 30 steps.
TRAINING = {
    "dot": (1, []),
    "one thread": (1, ["train.threads=1"]),
    "cross, bf16, adam": (1, ["model.interaction=cross", "train.precision=bf16", "train.dense_optimizer.type=adam",
                              "train.sparse_optimizer.type=adam"]),
    "concat, workers, shuffled": (1, ["model.interaction=concat", "data.workers=2", "data.shuffle=true"]),
    "fm, no workers": (1, ["model.interaction=fm", "data.workers=0", "train.dense_optimizer.type=lamb"]),
    "synthetic": (1, ["data.source=synthetic", "data.test=", "eval.at_end=false"]),
    "cached": (1, ["model.tables.big.rows=100000", "memory.tier=cached", "memory.cached.fast=8%",
                   "memory.cached.backing=host", "memory.cached.window=1"]),
    "often": (1, ["checkpoint.every_steps=5", "checkpoint.keep=2", "eval.every_steps=4"]),
    "two ranks, row": (2, ["sharding.strategy=row", "train.threads=1"]),
    "two ranks, column, fixed": (2, ["sharding.strategy=column", "routing.mode=fixed", "train.threads=1"]),
    "large batch": (1, ["model.embedding_dim=64", "model.bottom_mlp=[16,64]", "train.global_batch_size=1000"]),
    "three ranks": (3, ["sharding.strategy=auto", "train.threads=1", "checkpoint.at_end=true"]),
}


class CountedCalls(Pinned):
    expected = os.path.join(HERE, "counted_calls.json")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shim = cls.preload(SHIM, "-Wl,-z,initfirst")
        with open(SHIM, encoding="utf-8") as file:
            cls.functions = re.findall(r"X\((\w+), r\w\w?\)", file.read())
        with open(os.path.join(HERE, "small_model.yaml"), encoding="utf-8") as model, \
                open(os.path.join(cls.folder, "config.yaml"), "w", encoding="utf-8") as config:
            config.write(model.read() + BASE)
        for words in (["--samples", "2000", "--output", "train.h5"], ["--samples", "501", "--output", "test.h5"]):
            cls.plain("dlrm-data", "synth", "--config", "config.yaml", "--teacher", "3", *words)
        cls.plain("dlrm-train", "config.yaml")  # later runs overwrite its folders

    @staticmethod
    def text(known):
        return "{\n" + ",\n".join(
            f"{json.dumps(name)}: {{\n" + ",\n".join(f"  {json.dumps(f)}: {json.dumps(n)}" for f, n in calls.items()) + "}"
            for name, calls in sorted(known.items())) + "\n}\n"

    @classmethod
    def plain(cls, program, *words, given="", before=(), **variables):
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="2", **variables)
        done = subprocess.run([*before, os.path.join(bin_folder, program), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, input=given, text=True, cwd=cls.folder, env=environment)
        if done.returncode:
            raise AssertionError(done.stderr)
        return done

    def calls(self, program, *words, ranks=1, given=""):
        """[calls of the main thread, calls of others, sum] of each function that was called."""
        path = os.path.join(self.folder, "counts")
        each = f"LD_PRELOAD={self.shim} DLRM_COUNTED_CALLS={path}"
        before = ["env", *each.split()]
        if ranks > 1:
            before = ["mpirun", "--oversubscribe", "-np", str(ranks), "sh", "-c",
                      f'{each}.$OMPI_COMM_WORLD_RANK exec "$@"', "sh"]
        self.plain(program, *words, given=given, before=before)
        total = {}
        for name in [path] if ranks == 1 else [f"{path}.{r}" for r in range(ranks)]:
            with open(name, "rb") as file:
                data = file.read()
            os.remove(name)
            numbers = struct.unpack(f"<{len(data) // 8}Q", data)
            for at, function in enumerate(self.functions):
                of_it = numbers[3 * at:3 * at + 3]
                if any(of_it[:2]):
                    total[function] = [a + b for a, b in zip(total.get(function, [0, 0, 0]), of_it)]
        return total

    def train(self, *sets, ranks=1, words=()):
        return self.calls("dlrm-train", "config.yaml", "--overwrite", *(w for s in sets for w in ("--set", s)), *words,
                          ranks=ranks)

    def check(self, name, calls):
        """Which thread does a part of the work depends on the load, and so do the messages of the control thread, and
        how often the file of a lock is written anew."""
        counts, locked = {}, calls.pop("fdatasync", [0])[0]
        for function in ("pwrite", "ftruncate"):
            if function in calls:
                calls[function][0] -= locked
        for function, (main, others, argument) in calls.items():
            count = main if function.startswith("MPI_") else main + others
            if count and function != "_Znwm":
                counts[function] = [count, argument] if function in SUMMED else [count]
        self.check_all(name, counts)

    def check_all(self, name, calls):
        if UPDATE:
            self.known[name] = calls
            return
        self.assertIn(name, self.known)
        self.assertEqual(calls, self.known[name])

    def test_training(self):
        for name, (ranks, sets) in TRAINING.items():
            with self.subTest(name):
                shorter = self.train(*sets, "train.steps=20", ranks=ranks)
                longer = self.train(*sets, "train.steps=30", ranks=ranks)
                if ranks > 1:  # lines of the log depend on the time
                    del shorter["write"]
                self.check(name, shorter)
                more = {f: [a - b for a, b in zip(n, shorter.get(f, [0, 0, 0]))] for f, n in longer.items()}
                steps = {f: n[:1] for f, n in more.items() if f in ("_Znwm", "GOMP_parallel", "dnnl_primitive_execute")}
                allocated = steps.pop("_Znwm")[0]
                if ranks == 1:  # a list may grow once more or less
                    steps["allocations of a step"] = [(allocated + 5) // 10]
                self.check_all(name + ", ten steps", steps)

    def test_checkpoints_and_predictions(self):
        self.check("saved", self.train("checkpoint.at_end=true", "train.steps=20"))
        self.check("resumed", self.calls("dlrm-train", "config.yaml", "--resume", "--set", "train.steps=25"))
        self.check("evaluated", self.train("output.directory=evaluated", words=["--eval-only", "--resume"]))
        for kind in ("csv", "h5"):
            self.check("predicted as " + kind, self.train("output.directory=evaluated",
                                                         words=["--eval-only", "--resume", "--predict", "p." + kind]))
        line = json.dumps({"dense": [1, 2, 3, 4], "tiny": [1], "middle": [1, 2, 3], "left": [7], "right": [1, 2]})
        self.check("served", self.calls("dlrm-infer", "ckpt", given=(line + "\n") * 5))

    def test_data(self):
        log = os.path.join(self.folder, "log.tsv")
        with open(log, "w", encoding="utf-8") as file:
            for i in range(700):
                numbers = [str(i % (n + 2)) for n in range(13)]
                file.write("\t".join([str(i % 2), *numbers, *(f"{i * (c + 1) % 997:08x}" for c in range(26))]) + "\n")
        self.check("converted", self.calls("dlrm-data", "criteo", "log.tsv", "--output", "log.h5", "--dictionary", "d.h5"))
        subprocess.run(["gzip", "-kf", log], check=True)
        self.check("converted from gzip", self.calls("dlrm-data", "criteo", "log.tsv.gz", "--output", "gz.h5",
                                                     "--max-rows", "100"))
        self.check("shuffled", self.calls("dlrm-data", "shuffle", "train.h5", "--output", "shuffled.h5"))
        self.check("drawn", self.calls("dlrm-data", "synth", "--config", "config.yaml", "--samples", "3000", "--output",
                                       "drawn.h5"))
        self.check("inspected", self.calls("dlrm-data", "inspect", "train.h5"))
        self.check("planned", self.calls("dlrm-plan", "config.yaml", "--ranks", "5", "--output", "plan.json"))
        scanned = self.calls("dlrm-plan", "config.yaml", "--ranks", "2", "--scan-data", "--set",
                             "model.tables.big.rows=100000", "--set", "memory.tier=cached", "--set",
                             "memory.cached.fast=8%")
        for timed in ("io_uring_submit_and_wait", "crc32_iscsi"):  # the SSD is measured for some time
            scanned.pop(timed, None)
        self.check("scanned", scanned)


if __name__ == "__main__":
    bin_folder = os.path.abspath(sys.argv.pop(1))
    unittest.main()
