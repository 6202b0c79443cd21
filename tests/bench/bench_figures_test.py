#!/usr/bin/env python3
"""All figures of dlrm-bench with a clock that depends on its calls alone, compared with figures.json.

    bench_figures_test.py PATH/TO/dlrm-bench [--update]

Every number that is computed from times, and the number of measurements, show. What several threads or ranks measure
together is left out: there the order of calls depends on the load. Names of the machine and its memory are masked. With
--update the file is written anew."""
import json
import math
import os
import re
import subprocess
import sys

import bench_program
from bench_program import HERE, TINY

sys.path.insert(0, os.path.dirname(HERE))

from pinned import UPDATE, Pinned  # noqa: E402

MASKED = {"processor", "name", "config", "checkpoint", "device", "machine_memory_bytes", "core_utilization",
          "resident_bytes", "memory_share", "processors_per_node"}
SMALL = ["--batch=24", "--tables=2", "--rows=50", "--hotness=3", "--width=8", "--features=5", "--matrix=16",
         "--copied=4096", "--layer=16", "--crossed=40", "--parameters=1000", "--threads=1"]


def without_machine(value):
    if isinstance(value, dict):
        return {key: "..." if key in MASKED and not (key == "name" and "shape" in value) else without_machine(inner)
                for key, inner in value.items()}
    return [without_machine(inner) for inner in value] if isinstance(value, list) else value


def differences(got, expected, path=""):
    """The paths at which two values differ."""
    if isinstance(got, dict) and isinstance(expected, dict) and list(got) == list(expected):
        return [d for key in got for d in differences(got[key], expected[key], f"{path}/{key}")]
    if isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        return [d for at, pair in enumerate(zip(got, expected)) for d in differences(*pair, f"{path}/{at}")]
    if isinstance(got, float) and isinstance(expected, (int, float)):
        if math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12):
            return []
    return [] if got == expected and type(got) is type(expected) else [f"{path}: {got!r}, expected {expected!r}"]


class Figures(Pinned):
    expected = os.path.join(HERE, "figures.json")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.clock = cls.preload(os.path.join(HERE, "ticking_clock.c"))

    @staticmethod
    def text(known):
        return json.dumps(known, indent=1) + "\n"

    def run_bench(self, *words):
        """The JSON that the program writes, its table, and its log."""
        path = os.path.join(self.folder, "out.json")
        command = ["env", "LD_PRELOAD=" + self.clock, os.path.abspath(bench_program.program), *words,
                   "--output", path]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                              env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return without_machine(json.loads(text)), "" if done.stdout == text else done.stdout, done.stderr

    def check(self, name, figures, table=""):
        lines = re.sub(r"cpu: [^\n]*|, [A-Z][^\n,]*(?=\n)|/[^\n ,]*/", "...", table).splitlines()
        now = {"figures": figures, "table": lines}
        if UPDATE:
            self.known[name] = now
            return
        self.assertIn(name, self.known)
        self.assertEqual(differences(figures, self.known[name]["figures"]), [])
        self.assertEqual(lines, self.known[name]["table"])

    def test_limits(self):
        limits, _, _ = self.run_bench("limits", "--size", "64", "--megabytes", "1", "--seconds", "0.01", "--threads", "1")
        if None in limits["gflops"].values():
            self.skipTest("a library has no such product here")
        self.check("limits", limits)

    def test_kernels(self):
        for name, words in (("kernels", ["--seconds=0.01"]), ("kernels, one group", ["--seconds=0", "--only=dot"])):
            figures, table, _ = self.run_bench("kernels", "--device=cpu", *SMALL, *words)
            figures["execution"] = "..."  # the processor's vectors
            self.check(name, figures, table)

    def test_machine_of_one_rank(self):
        figures, _, _ = self.run_bench("machine", "--seconds", "0.01", "--largest", "65536", "--threads", "1")
        if figures["bf16_products_per_second"] == figures["fp32_products_per_second"]:
            self.skipTest("no products in bf16 here")
        self.check("machine", figures)

    def test_batch_sweep(self):
        figures, table, _ = self.run_bench("batch-sweep", TINY, "--repeats", "3", "--batches", "8,16,300", "--samples",
                                           "200", "--set", "train.threads=1")
        # Memory and busy cores are those of the machine.
        table = re.sub(r"(?m)^( +\d+ +[\d.]+ +[\d.]+ +\d+) +\d+( +[\d.]+).*$", r"\1 ...\2", table)
        self.check("batch-sweep", figures, table)

    def test_infer(self):
        train = os.path.join(os.path.dirname(bench_program.program), "dlrm-train")
        subprocess.run([train, TINY, "--set", "train.steps=0", "--set", "checkpoint.at_end=true", "--set",
                        f"checkpoint.directory={self.folder}/ckpt", "--set", f"output.directory={self.folder}/run"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        figures, table, _ = self.run_bench("infer", f"{self.folder}/ckpt", "--seconds=0.01", "--threads=1",
                                           "--batches=1,3,300", "--tables=fp32,int8", "--rates=2000,max", "--clients=1")
        self.check("infer", figures, table)


if __name__ == "__main__":
    bench_program.main()
