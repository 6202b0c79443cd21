#!/usr/bin/env python3
"""The output of the options of dlrm-bench: its form and counts, not its times."""
import os
import re
import unittest

from bench_program import ROOT, TINY, bench, main

MACHINE = os.path.join(ROOT, "configs/machines/epyc.json")


class Options(unittest.TestCase):
    def assert_refused(self, *words):
        done = bench(*words)
        self.assertEqual(done.returncode, 2, (words, done.stderr))
        self.assertEqual(done.stderr.count("\n"), 1, (words, done.stderr))
        return done.stderr

    def test_out_of_bounds_are_named(self):
        cases = {"machine": ["--seconds", "--largest", "--threads"],
                 "limits": ["--size", "--megabytes", "--seconds", "--threads"],
                 "kernels": ["--batch", "--tables", "--rows", "--hotness", "--width", "--features", "--matrix", "--copied",
                             "--layer", "--crossed", "--parameters", "--seconds", "--threads"],
                 "batch-sweep": ["--samples", "--repeats", "--batches"]}
        for command, options in cases.items():
            first = [command, TINY] if command == "batch-sweep" else [command]
            for option in options:
                for value in ("-1", "1e300", "99999999999999999999"):
                    self.assertIn(option, self.assert_refused(*first, f"{option}={value}"))

        for words in (["--seconds=-1"], ["--seconds=3601"], ["--warm-up=-1"], ["--warm-up=3601"], ["--part=rows"]):
            self.assertIn(words[0].split("=")[0], self.assert_refused("cache", TINY, *words))
        self.assertIn("memory.cached.policy", self.assert_refused("cache", TINY, "--policies", "lru"))

    def test_a_batch_is_a_number(self):
        words = ["--set", "train.global_batch_size=auto"]
        for command, of in (("timeline", ["--machine", MACHINE]), ("simulate", ["--machine", MACHINE]), ("cache", [])):
            refused = self.assert_refused(command, TINY, *of, *words)
            self.assertTrue(refused.endswith(f"train.global_batch_size: auto is chosen by dlrm-train; dlrm-bench {command} "
                                             "needs a number\n"), refused)

    def test_a_config_and_published_times_exclude_each_other(self):
        self.assertIn("--published", self.assert_refused("simulate", TINY, "--published", TINY, "--machine", MACHINE))

    def test_every_option_is_listed(self):
        expected = {
            "limits": "size megabytes seconds threads output",
            "machine": "seconds largest threads output",
            "simulate": "published like ranks ranks-per-node machine device-memory set output",
            "batch-sweep": "batches samples repeats set device output",
            "infer": "batches tables rates batch-wait clients seconds threads output",
            "cache": "shares policies part seconds warm-up set output",
            "kernels": "batch tables rows hotness width features matrix copied layer crossed rank parameters seconds variants only device "
                       "tf32 threads output",
        }
        for command, names in expected.items():
            listed = re.findall(r"^ +(?:-[a-z],)?--([a-z0-9-]+)", bench(command, "--help").stdout, re.M)
            self.assertEqual(sorted(listed), sorted(["help", *names.split()]), command)

    def test_larger_than_the_memory_are_refused(self):
        self.assertIn("memory", self.assert_refused("kernels", "--rows", "1000000000000"))
        self.assertIn("memory", self.assert_refused("kernels", "--device", "cpu", "--copied", "1000000000000"))
        self.assertIn("memory", self.assert_refused("batch-sweep", TINY, "--samples", "1000000000000"))


class Program(unittest.TestCase):
    def test_needs_a_command(self):
        self.assertEqual(bench().returncode, 2)

    def test_tells_help_and_version(self):
        for words in (["--help"], ["--version"], ["batch-sweep", "--help"], ["limits", "--help"], ["kernels", "--help"]):
            self.assertEqual(bench(*words).returncode, 0, words)

    def test_names_a_config_that_is_missing(self):
        done = bench("batch-sweep", "nowhere.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nowhere.yaml", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    main()
