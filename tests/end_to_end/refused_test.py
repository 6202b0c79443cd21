#!/usr/bin/env python3
"""Wrong options and files. Each ends with exit code 2 and one error line that names what is wrong and where.

    refused_test.py FOLDER/OF/PROGRAMS"""
import concurrent.futures
import gzip
import json
import os
import re
import shutil
import subprocess

import h5py
import numpy as np

import small_files
from small_files import LINE, ROOT, SmallFiles, main

MACHINE = os.path.join(ROOT, "configs/machines/epyc.json")
PLAN = "dlrm-plan config.yaml --ranks 2 "
TRAIN = "dlrm-train config.yaml --set train.steps=3 --set output.directory=other --set checkpoint.directory=none "


class Refused(SmallFiles):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made(PLAN + "--output plan.json")
        cls.made("dlrm-train config.yaml --set train.steps=2 --set checkpoint.at_end=true")

    def check(self, command, *words):
        """The words must be in the error line."""
        code, _, errors = self.run_program(command)
        with self.subTest(command=command, errors=errors):
            self.assertEqual(code, 2)
            lines = [line for line in errors.splitlines() if line.startswith("error: ")]
            self.assertEqual(len(lines), 1)
            for word in words:
                self.assertIn(word, lines[0])

    def check_file(self, name, text, command, *words):
        self.write(name, text)
        self.check(command, *words)

    def test_a_wrong_value_of_any_option_names_the_option(self):
        programs = {"dlrm-train": ["config.yaml"], "dlrm-plan": ["config.yaml", "--ranks", "1"],
                    "dlrm-infer": ["ckpt", "--port=0"], "dlrm-preflight": [],
                    "dlrm-data synth": ["--samples", "5", "--config", "config.yaml", "--output", "n.h5"],
                    "dlrm-data criteo": ["log.tsv", "--output", "n.h5"],
                    "dlrm-data shuffle": ["train.h5", "--output", "n.h5"], "dlrm-data inspect": ["train.h5"]}
        cases = []
        for name, words in programs.items():
            command = name.split()
            shown = subprocess.run([os.path.join(small_files.programs, command[0]), *command[1:], "--help"],
                                   capture_output=True, text=True).stdout
            cases.append([*command, *words, "--nonsense"])
            for option in re.findall(r"^ +(?:-[a-z],)?--([a-z0-9-]+) (?:INT|UINT|FLOAT|BOOLEAN|F\b|N\b)", shown, re.M):
                cases.append([*command, *words, f"--{option}=x1"])
        self.assertGreater(len(cases), 20)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for case in pool.map(lambda case: self.check(case, case[-1].partition("=")[0]), cases):
                self.assertIsNone(case)

    def test_a_number_beyond_the_bounds_of_an_option_names_it(self):
        plan, train, infer = "dlrm-plan config.yaml --ranks", "dlrm-train config.yaml --plan-only", "dlrm-infer ckpt"
        cases = [(command, ("0", "-1", "65537", "9" * 20)) for command in (plan, plan + " 2 --ranks-per-node", train + " --ranks")]
        cases += [(f"{command} --{memory}-memory", ("0", "-1", "inf", "nan", "1e300"))
                  for command in (plan + " 2", train) for memory in ("device", "host")]
        cases += [(infer + option, values) for option, values in (
            (" --batch-size", ("0", "1048577")), (" --threads", ("0", "1025")), (" --tables", ("fp8",)), (" --port", ("-1", "65536")),
            (" --port 0 --batch-wait", ("-1", "10000001")), (" --port 0 --max-body", ("0", "4097")),
            (" --port 0 --max-connections", ("0", "4097")), (" --port 0 --timeout", ("0", "3601")),
            (" --port 0 --reload-interval", ("-1", "1000001")))]
        for command, values in cases:
            for value in values:
                self.check(f"{command}={value}", command.split()[-1])

    def test_a_config_names_line_and_key(self):
        lines = self.config.count("\n")
        for text, *words in [
                (self.config + "evla: {at_end: false}\n", f"wrong.yaml:{lines + 1}", "evla", "eval"),
                (self.config.replace("steps: 20", "steps: [20]"), "wrong.yaml:", "train.steps"),
                (self.config.replace("steps: 20", "steps: 20\n  epochs: 1"), "wrong.yaml:", "train.epochs"),
                (self.config + "eval: {at_end: false}\n", "wrong.yaml", "eval"), ("a:\n\t- 1\n", "wrong.yaml:2"),
                (self.config.replace("[16, 8]", "[16, 9]"), "wrong.yaml:2", "embedding_dim", "9"), (self.config.replace("rows: 500", "rows: 0"), "rows")]:
            self.check_file("wrong.yaml", text, "dlrm-plan wrong.yaml --ranks 2", *words)
        for value, *words in [("trian.steps=1", "trian"), ("train.steps=[{}]", "train.steps"), ("train.steps=-1", "train.steps"),
                              ("model.tables.none.rows=3", "none"), ("memory.device=5XiB", "memory.device", "5XiB")]:
            self.check([*PLAN.split(), "--set", value], *words)

    def test_a_plan_file_is_named_with_its_table(self):
        with open(self.path("plan.json"), encoding="utf-8") as file:
            text = file.read()
        plan = json.loads(text)
        big = next(shard for shard in plan["shards"] if shard["table"] == "big")
        for wrong, *words in [
                ("{\n\"world\": 2,,}", "wrong.json"), ("{\"world\"", "wrong.json"), ({**plan, "world": 3}, "3"),
                ({**plan, "shards": plan["shards"] + [big]}, "wrong.json", "big"),
                ({**plan, "shards": [s for s in plan["shards"] if s["table"] != "big"]}, "wrong.json", "big"),
                ({**plan, "shards": [{**big, "rank": 9}, *plan["shards"]]}, "wrong.json", "9"),
                (text.replace("\"rows\"", "\"rwos\"", 1), "wrong.json", "rows")]:
            self.check_file("wrong.json", wrong if isinstance(wrong, str) else json.dumps(wrong),
                            PLAN + "--set sharding.plan=wrong.json", *words)

    def test_a_machine_file_is_named_with_its_key(self):
        with open(MACHINE, encoding="utf-8") as file:
            machine = json.load(file)
        key = "memory_bytes_per_second"
        for wrong in ({**machine, key: 0}, {**machine, key: "1"}, {k: v for k, v in machine.items() if k != key}):
            self.check_file("wrong.json", json.dumps(wrong), PLAN + "--machine wrong.json", "wrong.json", key)
        self.check_file("wrong.json", json.dumps({**machine, "speed": 3}), PLAN + "--machine wrong.json", "wrong.json", "speed")

    def test_a_dataset_names_file_sample_and_feature(self):
        def column(name, at, value):
            shutil.copy(self.path("train.h5"), self.path("made.h5"))
            with h5py.File(self.path("made.h5"), "r+") as file:
                del file.attrs["checksum_samples"]
                if name == "label":  # as other programs write it
                    labels = file["label"][()].astype(np.float32)
                    del file["label"]
                    file["label"] = labels
                file[name][at] = value

        train = TRAIN + "--set data.train=made.h5 --set data.test= "
        for name, at, value, *words in [
                ("label", 44, 1.5, "44"), ("label", 45, np.nan, "45"), ("dense", (33, 2), np.inf, "33", "2"),
                ("sparse/middle/ids", 3 * 27 + 1, 500, "27", "middle", "500"), ("sparse/left/ids", 25, -1, "25", "left", "-1")]:
            column(name, at, value)
            self.check(train, "made.h5", *words)
            self.check("dlrm-data inspect made.h5", "made.h5", *words)
        for words in (["data.train=none.h5", "none.h5"], ["data.train=config.yaml", "config.yaml"],
                      ["model.dense_features=5", "dense", "4", "5"], ["model.tables.tiny.name=tyni", ".h5", "tyni"],
                      ["model.tables.middle.rows=400", ".h5", "middle"]):
            self.check(TRAIN + "--set " + words[0], *words[1:])

    def test_a_log_names_file_and_line(self):
        for wrong, *words in [("2" + LINE[1:], "label"), ("1\t2\n", ""), (LINE.replace("1\t1\t", "1\tx\t", 1), "x"),
                              (LINE[:-1] + "\t1\n", ""), (LINE[:-2] + "g\n", "0000000g")]:
            self.check_file("wrong.tsv", LINE * 2 + wrong, "dlrm-data criteo wrong.tsv --output n.h5", "wrong.tsv:3", *words)
        packed = gzip.compress((LINE * 50).encode())
        for wrong in (packed[:-9], packed[:40] + b"\xff" * 9 + packed[49:]):
            self.check_file("wrong.gz", wrong, "dlrm-data criteo wrong.gz --output n.h5", "wrong.gz")
        self.check("dlrm-data criteo log.tsv --output n.h5 --dictionary train.h5", "train.h5")
        self.assertFalse(os.path.exists(self.path("n.h5")))

    def test_a_damaged_checkpoint_is_named_with_its_file(self):
        def flip(name):
            with open(name, "r+b") as file:
                file.seek(-100, os.SEEK_END)
                byte = file.read(1)[0]
                file.seek(-100, os.SEEK_END)
                file.write(bytes([byte ^ 1]))

        for name in ("index.h5", "index.crc", "rank_00000.h5"):
            for damage in (os.remove, lambda path: os.truncate(path, os.path.getsize(path) // 2), flip):
                if name == "index.crc" and damage is flip:
                    continue  # it is shorter
                shutil.rmtree(self.path("wrong"), ignore_errors=True)
                shutil.copytree(self.path("ckpt"), self.path("wrong"))
                damage(self.path("wrong/step_000000002/" + name))
                self.check(TRAIN + "--set data.test= --resume=wrong/step_000000002", "wrong/step_000000002/index"
                           if name == "index.crc" else "wrong/step_000000002/" + name)
                self.check("dlrm-infer wrong", "wrong")
        for words in (["model.bottom_mlp=[17,8]", "step_000000002", "/mlp/bottom/0/weight"], ["model.tables.big.rows=4002", "big"]):
            self.check(TRAIN + "--init-from=ckpt --set " + words[0], *words[1:])

    def test_a_wrong_sample_is_answered_and_the_next_is_predicted(self):
        good = {"dense": [1, 2, 3, 4], "ids": {"tiny": [1], "middle": [3, 499], "left": [4000], "right": [0, 7]}}
        wrong = [("{}", "dense"), ("[1", "JSON"), ({**good, "dense": [1, 2, 3]}, "dense"), ({**good, "more": 1}, "more"),
                 ({**good, "ids": {**good["ids"], "right": [4001]}}, "ids.right"),
                 ({**good, "ids": {**good["ids"], "right": [-1]}}, "ids.right"), ({**good, "ids": {"rihgt": [1]}}, "rihgt")]
        lines = [text if isinstance(text, str) else json.dumps(text) for text, _ in wrong]
        done = subprocess.run([os.path.join(small_files.programs, "dlrm-infer"), "ckpt", "--threads", "1"], capture_output=True,
                              input="\n".join(line + "\n" + json.dumps(good) for line in lines) + "\n", text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(answers), 2 * len(wrong))
        for (_, word), refused, predicted in zip(wrong, answers[::2], answers[1::2]):
            self.assertIn(word, refused["error"])
            self.assertEqual(predicted, answers[1])
            self.assertTrue(0 < predicted["probability"] < 1)

    def test_published_times_are_named_with_their_key(self):
        if not os.path.exists(os.path.join(small_files.programs, "dlrm-bench")):
            self.skipTest("dlrm-bench is not built")
        times = {"program": "p", "source": "s", "largest_slice_elements": 1e6,
                 "seconds": {"id": 0, "element": 0, "input": 0, "model_input": 0},
                 "points": [{"config": "config.yaml", "ranks": 1, "ms": 0}]}
        self.check_file("wrong.json", json.dumps(times), f"dlrm-bench simulate --published wrong.json --machine {MACHINE}",
                        "wrong.json", "ms")


if __name__ == "__main__":
    main()
