#!/usr/bin/env python3
"""The Python package: package_test.py FOLDER/OF/THE/PACKAGE FOLDER/OF/THE/PROGRAMS"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import mpi4py  # noqa: F401
    import numpy as np
    import torch  # noqa: F401
    import yaml  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing} (launch/install_deps.sh torch)")
    sys.exit(77)

import bags

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "own_pytorch_model")
PACKAGE, PROGRAMS = "", ""
PLANS = ["table", "row", "column", "data_parallel"]


def run(ranks, script, *arguments, folder, code=0):
    """Runs a script on ranks of mpirun; 0: without it. Returns what it printed."""
    environment = dict(os.environ, PYTHONPATH=f"{PACKAGE}:{EXAMPLE}", OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl_base_warn_component_unused="0")
    command = ["mpirun", "--oversubscribe", "-np", str(ranks)] if ranks else []
    done = subprocess.run(command + [sys.executable, script, *map(str, arguments)], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == code, f"{script} {arguments} on {ranks}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class OfRanks(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = self.temporary.name

    def case(self, ranks, *arguments, code=0):
        return run(ranks, os.path.join(HERE, "rank_program.py"), *arguments, folder=self.folder, code=code)

    def pooled(self, name, ranks):
        """The pooled vectors of each step, of all ranks."""
        parts = [np.load(os.path.join(self.folder, f"{name}.{max(ranks, 1)}.{r}.npz")) for r in range(max(ranks, 1))]
        return [np.concatenate([p[key] for p in parts]) for key in parts[0].files]

    def saved(self, folder, step, names=bags.TABLES):
        with h5py.File(os.path.join(self.folder, folder, f"step_{step:09}", "index.h5"), "r") as f:
            return {name: f[f"tables/{name}/weight"][()] for name in names}

    def assert_near(self, ours, expected):
        self.assertEqual(len(ours), len(expected))
        for a, b in zip(ours, expected):
            self.assertEqual(a.shape, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


class Training(OfRanks):
    def check(self, ranks, plan, loaded_by, loaded_plan):
        """Trains, and then continues on another number of ranks."""
        self.case(ranks, "train", plan, "ckpt", 0, 6)
        first = self.saved("ckpt", 0)
        for name, (rows, width, _, _) in bags.TABLES.items():
            self.assertEqual(first[name].shape, (rows, width))
            self.assertLessEqual(abs(first[name]).max(), 1 / np.sqrt(rows))
        reference = bags.Reference(first)
        self.assert_near(self.pooled("pooled", ranks), [reference.train(step) for step in range(6)])
        self.assert_near(list(self.saved("ckpt", 6).values()), list(reference.weights.values()))
        self.case(loaded_by, "train", loaded_plan, "ckpt", 6, 11)
        self.assert_near(self.pooled("pooled", loaded_by), [reference.train(step) for step in range(6, 11)])
        self.assert_near(list(self.saved("ckpt", 11).values()), list(reference.weights.values()))

    def test_one_process_then_two_ranks(self):
        self.check(0, "auto", 2, "row")

    def test_plans_on_three_ranks(self):
        for plan, loaded_by, loaded_plan in [("table", 1, "auto"), ("row", 2, "column"), ("column", 2, "table"),
                                             ("data_parallel", 2, "row")]:
            with self.subTest(plan):
                self.setUp()
                self.check(3, plan, loaded_by, loaded_plan)

    def test_initial_rows_are_those_of_init_on_any_number_of_ranks(self):
        self.case(0, "initial", "auto", "one")
        self.case(3, "initial", "row", "three")
        names = ("zero", "uniform", "normal")
        one, three = self.saved("one", 0, names), self.saved("three", 0, names)
        for name in names:
            np.testing.assert_array_equal(one[name], three[name])
        self.assertEqual(abs(one["zero"]).max(), 0)
        self.assertTrue(0.24 < abs(one["uniform"]).max() <= 0.25)
        self.assertAlmostEqual(one["normal"].std(), 2, delta=0.1)

    def test_an_error_on_one_rank_is_raised_on_all_and_changes_nothing(self):
        for ranks in (0, 3):
            with self.subTest(ranks):
                self.case(ranks, "train", "row", f"ckpt{ranks}", 0, 1)
                reference = bags.Reference(self.saved(f"ckpt{ranks}", 0))
                self.case(ranks, "errors")
                reference.train(0)
                self.assert_near(self.pooled("after_errors", ranks), [reference.train(step) for step in range(1, 6)])

    def test_gradients_are_those_of_the_global_mean(self):
        for ranks in (1, 3):
            self.case(ranks, "gradients")

    def test_memory(self):
        self.case(0, "shares_memory")
        self.case(0, "memory")
        self.case(2, "memory")


class Endings(OfRanks):
    def last_line(self, done):
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_an_error_that_nobody_catches_ends_all_ranks(self):
        done = self.case(3, "fails", "id", code=2)
        self.assertRegex(self.last_line(done), r"^error: sample 0 of the global batch, feature one: id 100\d is not in")
        done = self.case(3, "fails", "program", code=3)
        self.assertEqual(self.last_line(done), r"error: rank 2: KeyError: 'of the\nprogram'")
        self.assertIn("printed before", done.stdout)
        self.assertIn("Traceback", done.stderr)

    def test_one_process_ends_as_python_does(self):
        done = self.case(0, "fails", "program", code=1)
        self.assertIn("KeyError", done.stderr.splitlines()[-1])

    def test_the_watchdog_names_a_rank_that_waits(self):
        done = self.case(2, "stalls", code=3)
        self.assertRegex(self.last_line(done), r"^error: rank 1 made no progress for 2 s")

    def test_ranks_of_a_communicator(self):
        self.case(4, "communicator")


class Datasets(OfRanks):
    TABLES = [{"name": "user", "rows": 90}, {"name": "tags", "rows": 20, "hotness": 3}]

    def test_batches_are_those_of_the_file(self):
        rng = np.random.default_rng(2)
        samples, batch_size = 53, 10
        user = rng.integers(0, 90, samples).astype(np.int32)
        lengths = rng.integers(0, 4, samples)
        tags, offsets = rng.integers(0, 20, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])
        dense = np.arange(samples * 2, dtype=np.float32).reshape(samples, 2)
        with h5py.File(os.path.join(self.folder, "data.h5"), "w") as f:
            f.attrs.update({"format": "dlrm-dataset", "version": 1, "samples": samples})
            f["label"], f["dense"] = (np.arange(samples) % 2).astype(np.uint8), dense
            f["sparse/user/ids"], f["sparse/tags/ids"], f["sparse/tags/offsets"] = user, tags, offsets
            f["sparse/user/ids"].attrs.update({"rows": 90, "hotness": 1})
            f["sparse/tags/ids"].attrs["rows"] = 20
        orders = {}
        for shuffle in ("no", "yes"):
            for ranks in (0, 3):
                size = max(ranks, 1)
                self.case(ranks, "dataset", "data.h5", self.TABLES, batch_size, shuffle)
                files = [np.load(os.path.join(self.folder, f"batches.{size}.{r}.npz")) for r in range(size)]
                order = []
                for t in range(2 * 6):
                    total = min(batch_size, samples - t % 6 * batch_size)
                    for r, file in enumerate(files):
                        names = ("dense", "labels", "ids", "offsets", "weights")
                        got = {name: file[f"arr_{5 * t + k}"] for k, name in enumerate(names)}
                        self.assertEqual(got["weights"].size, 0)
                        begin, end = bags.part(total, r, size)
                        chosen = (got["dense"][:, 0] / 2).astype(int)
                        self.assertEqual(len(chosen), end - begin)
                        order += chosen.tolist()
                        np.testing.assert_array_equal(got["dense"], dense[chosen])
                        np.testing.assert_array_equal(got["labels"], chosen % 2)
                        bag = [user[c:c + 1] for c in chosen] + [tags[offsets[c]:offsets[c + 1]] for c in chosen]
                        np.testing.assert_array_equal(got["ids"], np.concatenate(bag + [[]]))
                        np.testing.assert_array_equal(np.diff(got["offsets"]), [len(one) for one in bag])
                orders.setdefault(shuffle, order)
                self.assertEqual(order, orders[shuffle])
        self.assertEqual(orders["no"], list(range(samples)) * 2)
        first, second = orders["yes"][:samples], orders["yes"][samples:]
        self.assertEqual(sorted(first), list(range(samples)))
        self.assertNotEqual(first, second)


class Example(OfRanks):
    def test_three_lines_differ_and_the_losses_are_those_of_the_trainer(self):
        with open(os.path.join(EXAMPLE, "plain.py")) as plain, open(os.path.join(EXAMPLE, "train.py")) as train:
            before, after = ({line for line in f.read().split('"""')[2].splitlines() if line} for f in (plain, train))
        self.assertEqual((len(before - after), len(after - before)), (2, 3))
        config = os.path.join(EXAMPLE, "model.yaml")

        def program(name, *arguments):
            subprocess.run([os.path.join(PROGRAMS, name), *arguments], cwd=self.folder, check=True,
                           capture_output=True, timeout=240)
        program("dlrm-data", "synth", "--samples", "3000", "--config", config, "--teacher", "3", "--output", "train.h5")
        program("dlrm-train", config, "--set", "train.steps=0", "--set", "checkpoint.at_end=true")
        program("dlrm-train", config, "--set", "checkpoint.directory=none")
        with open(os.path.join(self.folder, "runs/own_pytorch_model/metrics.jsonl")) as f:
            expected = [line["loss"] for line in map(yaml.safe_load, f) if "loss" in line]
        self.assertEqual(len(expected), 47)
        self.case(2, "whole_model", config, "ckpt", "from_pytorch")
        program("dlrm-train", config, "--init-from", "from_pytorch", "--set", "train.steps=1",
                "--set", "checkpoint.directory=none", "--set", "output.directory=runs/second")
        with open(os.path.join(self.folder, "runs/second/metrics.jsonl")) as f:
            self.assertAlmostEqual(yaml.safe_load(f.readline())["loss"], expected[0], delta=1e-6)
        for ranks, script in [(0, "plain.py"), (0, "train.py"), (1, "train.py"), (4, "train.py")]:
            done = run(ranks, os.path.join(EXAMPLE, script), config, "ckpt", folder=self.folder)
            losses = [float(line.split()[-1]) for line in done.stdout.splitlines()]
            self.assertEqual(len(losses), len(expected))
            np.testing.assert_allclose(losses, expected, rtol=1e-5, err_msg=f"{script} on {ranks}")


if __name__ == "__main__":
    PACKAGE, PROGRAMS = map(os.path.abspath, sys.argv[1:3])
    built = [glob.glob(os.path.join(PACKAGE, "dlrm", name)) for name in ("__init__.py", "_dlrm*.so")]
    if not all(built):  # a build of other targets makes the folder too
        print("skipped: the package was not built (launch/install_deps.sh torch)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
