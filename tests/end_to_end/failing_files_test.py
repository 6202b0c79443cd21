#!/usr/bin/env python3
"""Each file operation of a program fails in turn. The run ends as docs/errors.md says, each file is as it was before
or as it is without the failure, and nothing of a file that was begun stays.

    failing_files_test.py FOLDER/OF/PROGRAMS

storm/faults.c lets the operations fail."""
import filecmp
import json
import os
import re
import shutil
import subprocess

import h5py

from small_files import ROOT, SmallFiles, main

MOST = 400  # operations
TRAIN = "dlrm-train config.yaml --set data.workers=0 --set data.test= --set train.steps="
OFTEN = " --set checkpoint.every_steps=1 --set checkpoint.keep=1"


def same_file(one, other):
    """HDF5 files, which hold times, are compared by their values. So are the checksums of files in an index."""
    if filecmp.cmp(one, other, shallow=False):
        return True
    if not (h5py.is_hdf5(one) and h5py.is_hdf5(other)):
        return False
    with h5py.File(one) as a, h5py.File(other) as b:
        names, same = [], []
        a.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        b.visititems(lambda name, item: same.append(name) if isinstance(item, h5py.Dataset) else None)
        return names == same and all(a[name][()].tobytes() == b[name][()].tobytes() for name in names if name != "layout/files")


class FailingFiles(SmallFiles):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shim = cls.path("faults.so")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", cls.shim, os.path.join(ROOT, "tests/storm/faults.c"), "-ldl"],
                       check=True)

    def setUp(self):
        """The folder `before` is what a program finds."""
        self.mark = self.path("mark")
        self.before, self.now, self.after = (self.path(name) for name in ("before", "now", "after"))
        for folder in (self.before, self.now, self.after):
            shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(self.before)
        for name in ("config.yaml", "train.h5", "test.h5", "log.tsv"):
            shutil.copy(self.path(name), self.before)

    def fail_each(self, command, outputs, check=lambda code: None):
        """Checks each run of which one operation failed, and returns the names of files in the errors."""
        shutil.copytree(self.before, self.after)
        self.made(command, self.after)
        named = set()
        for at in range(1, MOST):
            shutil.rmtree(self.now, ignore_errors=True)
            shutil.copytree(self.before, self.now)
            code, _, errors = self.run_program(command, self.now, LD_PRELOAD=self.shim, DLRM_FAULT_MARK=self.mark,
                                               DLRM_FAULTS=f"folder={self.now} seed=1 written=1 at={at}")
            if not os.path.exists(self.mark):  # there are not so many operations
                self.assertEqual(code, 0)
                return named
            os.remove(self.mark)
            with self.subTest(operation=at, errors=errors):
                named |= self.check_ending(code, errors)
                self.check_files(code, outputs)
                check(code)
        self.fail(f"more than {MOST} operations")

    def check_ending(self, code, errors):
        """Returns the names of files in the errors."""
        self.assertIn(code, (0, 2, 3))
        wrong = [line for line in errors.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(wrong), int(code != 0))
        named = set(re.findall(r"[\w.]+\.(?:h5|crc|yaml|jsonl?|csv|tsv|lock)\b", " ".join(wrong)))
        if code:  # the file, or its folder
            self.assertTrue(named or re.search(r"\bckpt\b|\brun\b|\bafter\b|: \.:", wrong[0]))
        return {re.sub(r"\.[0-9a-f]{16}$", "", name) for name in named}

    def check_files(self, code, outputs):
        for here, _, names in os.walk(self.now):
            for name in names:
                self.assertNotRegex(os.path.join(here, name), r"\.partial|\.tmp")
        for name in outputs:
            old, now, new = (os.path.join(folder, name) for folder in (self.before, self.now, self.after))
            if not os.path.exists(now):
                self.assertNotEqual(code, 0)
                self.assertFalse(os.path.exists(old), f"{name} of before is lost")
            else:
                self.assertTrue(same_file(now, new) or os.path.exists(old) and same_file(now, old), f"{name} is damaged")
                self.assertTrue(code or same_file(now, new), f"{name} is not written, and the exit code is 0")

    def check_run(self, code):
        """A whole checkpoint is there, and none is damaged. Each file of the run directory is whole."""
        steps = [name for name in os.listdir(os.path.join(self.now, "ckpt")) if name.startswith("step_")]
        self.assertTrue("step_000000004" in steps if code == 0 else steps)
        for step in steps:
            whole = next(folder for folder in (self.before, self.after, self.path("between"))
                         if os.path.exists(os.path.join(folder, "ckpt", step)))
            for name in ("index.h5", "rank_00000.h5"):
                paths = [os.path.join(folder, "ckpt", step, name) for folder in (self.now, whole)]
                self.assertTrue(os.path.exists(paths[0]) and same_file(*paths), paths[0])
            self.assertTrue(os.path.exists(os.path.join(self.now, "ckpt", step, "index.crc")))
        for name in ("trace.json", "run/plan.json", "run/summary.json"):
            if name != "run/summary.json" or code == 0 or os.path.exists(os.path.join(self.now, name)):
                with open(os.path.join(self.now, name), encoding="utf-8") as file:
                    json.load(file)
        with open(os.path.join(self.now, "run/metrics.jsonl"), encoding="utf-8") as file:
            recorded = [json.loads(line)["step"] for line in file]
        self.assertEqual(recorded, list(range(1, len(recorded) + 1)))
        self.assertGreaterEqual(len(recorded), 4 if code == 0 else 2)

    def test_a_resumed_run_keeps_a_whole_checkpoint(self):
        """Each save removes the checkpoint before it."""
        self.made(TRAIN + "2" + OFTEN, self.before)
        shutil.copytree(self.before, self.path("between"))
        self.made(TRAIN + "3 --resume" + OFTEN, self.path("between"))
        with open(os.path.join(self.before, "trace.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        named = self.fail_each(TRAIN + "4 --resume --profile trace.json" + OFTEN, [], self.check_run)
        for name in ("config.yaml", "plan.json", "metrics.jsonl", "summary.json", "index.h5", "index.crc", "rank_00000.h5",
                     "trace.json"):
            self.assertIn(name, named)

    def test_predictions_of_before_stay(self):
        self.made(TRAIN + "2 --set checkpoint.at_end=true", self.before)
        predict = "dlrm-train config.yaml --set output.directory=after --predict "
        for name in ("p.csv", "p.h5"):
            with self.subTest(name):
                shutil.rmtree(self.after, ignore_errors=True)
                with open(os.path.join(self.before, name), "w", encoding="utf-8") as file:
                    file.write("of before")
                self.assertIn(name, self.fail_each(predict + name, [name]))

    def test_datasets_of_before_stay(self):
        synth = "dlrm-data synth --config config.yaml --samples 40 --output new.h5 --seed "
        self.made(synth + "1", self.before)
        self.assertIn("new.h5", self.fail_each(synth + "2", ["new.h5"]))

    def test_a_log_and_its_dictionary_of_before_stay(self):
        criteo = "dlrm-data criteo log.tsv --dictionary d.h5 --output new.h5"
        self.made(criteo, self.before)
        with open(os.path.join(self.before, "log.tsv"), "a", encoding="utf-8") as file:
            file.write("\t".join(["0"] * 14 + ["0000000b"] * 26) + "\n")
        named = self.fail_each(criteo, ["new.h5", "d.h5"])
        self.assertLessEqual({"new.h5", "d.h5"}, named)

    def test_a_shuffled_dataset_of_before_stays(self):
        shuffle = "dlrm-data shuffle train.h5 --output new.h5 --seed "
        self.made(shuffle + "1", self.before)
        self.assertIn("new.h5", self.fail_each(shuffle + "2", ["new.h5"]))

    def test_a_plan_of_before_stays(self):
        with open(os.path.join(self.before, "plan.json"), "w", encoding="utf-8") as file:
            file.write("of before")
        self.assertIn("plan.json", self.fail_each("dlrm-plan config.yaml --ranks 2 --output plan.json", ["plan.json"]))


if __name__ == "__main__":
    main()
