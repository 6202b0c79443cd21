#!/usr/bin/env python3
"""Runs the commands of README.md and docs/ with small data. commands_test.py FOLDER_OF_PROGRAMS

Every block of commands is here: it is run, with the changes named, or another test runs it, or there is a
reason why none does."""
import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ""
COMMAND = re.compile(r"^(\./)?(dlrm-[a-z]+|launch/|python3 |tests/|mpirun|sbatch|cmake|build/|curl)", re.M)

# By page and the beginning of a block: changes of its text.
RUN = {
    ("README.md", "dlrm-data criteo day_0.gz"): [],
    ("README.md", "dlrm-data criteo train.txt"): [],
    ("README.md", "launch/build.sh cpu programs"): [
        (r"^(launch/build.sh|export PATH).*\n", ""), ("400000", "20000"), ("50000", "2000"), ("steps=100", "steps=3"),
        ("steps=200", "steps=5")],
    ("README.md", "dlrm-train configs/synthetic/colossal.yaml"): [],
    ("docs/file-formats.md", "dlrm-data shuffle"): [],
    ("docs/file-formats.md", "dlrm-plan configs/mlperf_dcnv2.yaml"): [],
    ("docs/operations.md", "dlrm-sweep"): [(r"^.*KEY=.*\n", ""), (r"embedding_dim=16,32", "seed=1,2 -- --set train.steps=1"),
                                                (r"model\.", "train.")],
    ("docs/operations.md", "dlrm-scaling"): [
        (r"^dlrm-scaling CONFIG.*\n(  .*\n)?", ""), ("configs/synthetic/tiny.yaml", "CONFIG"),
        ("1,2,4,8", "1,2 --steps 2 --repeats 1"),
        (r"(scaling.parallelism) (--output \S+).*", r"\1 \2 --configs CONFIG --ranks 2 --batch 64 --steps 2 --repeats 1")],
    ("docs/operations.md", "dlrm-train CONFIG --eval-only"): [],
    ("docs/operations.md", "dlrm-train CONFIG --predict predictions.csv --resume"): [],
    ("docs/planning.md", "dlrm-bench simulate"): [],
    ("docs/python.md", "dlrm-bench batch-sweep CONFIG"): [(r"8\.\.65536", "8,16 --samples 64 --repeats 1"),
                                                          (" --output machines.svg", "")],
    ("docs/serving.md", "dlrm-infer ckpt <"): [(r"^dlrm-infer ckpt --port.*\n", "")],
    ("docs/serving.md", "dlrm-bench infer ckpt"): [("infer.json", "infer.json --seconds 0.01 --batches 1,2 --rates max")],
}
CI, LONG = "CI runs it", "it takes hours"
ELSEWHERE = {
    ("README.md", "./launch/quickstart.sh"): CI,
    ("README.md", "launch/install_deps.sh python"): "import_programs_test.py, with PyArrow",
    ("README.md", "python3 mine.py"): "dataset_programs_test.py",
    ("README.md", "launch/build.sh cuda"): "it needs CUDA, and most lines a GPU",
    ("docs/architecture.md", "include/"): "a list of folders",
    ("docs/config.md", "dlrm-train CONFIG --device cuda"): "end_to_end/plan_test.cpp, with other sizes",
    ("docs/config.md", "dlrm-data import"): "parquet_programs_test.py, with PyArrow",
    ("docs/import.md", "dlrm-data import"): "import_programs_test.py, with PyArrow",
    ("docs/library.md", "launch/build.sh cpu programs"): "end_to_end/install_test.cpp",
    ("docs/library.md", "launch/install_deps.sh build pip torch"): "python/package_test.py, with PyTorch",
    ("docs/model.md", "dlrm-export"): "export_test.py, with PyTorch and ONNX",
    ("docs/model.md", "dlrm-train CONFIG --set train.steps=0"): "export_test.py",
    ("docs/operations.md", "launch/preflight.sh"): "preflight, and end_to_end/preflight_test.cpp",
    ("docs/operations.md", "dlrm-train CONFIG --predict predictions.csv --records"): "records_programs_test.py, with PyArrow",
    ("docs/python.md", "launch/install_deps.sh python"): CI,
    ("docs/python.md", "launch/install_deps.sh build pip"): CI,
    ("docs/python.md", "dlrm-compare"): "runs_test.py, with matplotlib",
    ("docs/reliability.md", "launch/build.sh fuzz"): CI,
    ("docs/reliability.md", "tests/storm.py"): LONG,
    ("docs/serving.md", "curl"): "tutorial_test.py",
    ("docs/tutorial.md", "launch/build.sh"): "tutorial_test.py runs the rest of the page",
}


def pages():
    return ["README.md", *sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "docs/*.md")))]


def fenced(page, kind=""):
    """The blocks of a page whose fence names this language."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        found = re.findall(r"^```(\w*)\n(.*?)^```$", file.read(), re.M | re.S)
    return [block for name, block in found if name == kind]


def blocks(page):
    """The blocks of commands of a page."""
    return [block for block in fenced(page) if COMMAND.search(block)]


def known(page, block, table):
    return next((key for key in table if key[0] == page and block.startswith(key[1])), None)


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name in ("launch", "configs"):
            os.symlink(os.path.join(ROOT, name), os.path.join(cls.folder, name))
        cls.make_commands()
        cls.sh("dlrm-data synth --criteo --samples 300 --output train.tsv && mv train.tsv train.txt")
        for day in (0, 1, 23):
            with open(cls.path("train.txt"), "rb") as text, gzip.open(cls.path(f"day_{day}.gz"), "wb") as file:
                file.write(text.read())
        for day in (0, 1):
            cls.sh(f"dlrm-data synth --config configs/quickstart.yaml --samples 500 --seed {day} --output day_{day}.h5")
        model = {"dense_features": 3, "embedding_dim": 4, "bottom_mlp": [4], "top_mlp": [1], "tables": [{"name": "a", "rows": 9}]}
        config = {"model": model, "data": {"train": "small.h5", "test": "small.h5"}, "train": {"global_batch_size": 64, "epochs": 1},
                  "checkpoint": {"directory": "ckpt", "at_end": True}, "output": {"directory": "runs/one"}}
        with open(cls.path("CONFIG"), "w", encoding="utf-8") as file:
            json.dump(config, file)  # JSON is YAML
        with open(cls.path("samples.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"dense": [1, 2, 3], "ids": {"a": [8]}}\n')
        with open(cls.path("prices.yaml"), "w", encoding="utf-8") as file:
            file.write("per_hour: {small.json: 1, large.json: 2}\n")
        cls.sh("dlrm-data synth --config CONFIG --samples 640 --output small.h5 && dlrm-train CONFIG")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def make_commands(cls):
        """Those of the Python package, and python3, for the Python that runs this."""
        with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
            scripts = re.findall(r'^(dlrm-\w+) = "([\w.]+):main"$', file.read(), re.M)
        os.mkdir(cls.path("bin"))
        for name, words in [("python3", ""), *((name, f"-m {module}") for name, module in scripts)]:
            with open(cls.path(f"bin/{name}"), "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            os.chmod(cls.path(f"bin/{name}"), 0o755)

    @classmethod
    def sh(cls, script):
        done = subprocess.run(
            ["bash", "-ec", script], cwd=cls.folder, text=True, timeout=300, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, PATH=f"{cls.path('bin')}:{PROGRAMS}:{os.environ['PATH']}", DLRM_TRAIN=os.path.join(PROGRAMS, "dlrm-train"),
                     DLRM_PYTHON=sys.executable, OMP_NUM_THREADS="1", MPIRUN_OPTIONS="--oversubscribe"))
        if done.returncode:
            raise AssertionError(f"{script}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def run_block(self, page, beginning):
        (block,) = [block for block in blocks(page) if block.startswith(beginning)]
        for pattern, new in RUN[page, beginning]:
            block, count = re.subn(pattern, new, block, flags=re.M)
            self.assertGreater(count, 0, f"{page}: nothing to change: {pattern}")
        return self.sh(block)

    def test_every_block_is_run_or_has_a_reason(self):
        found = [known(page, block, {**RUN, **ELSEWHERE}) or (page, block.splitlines()[0]) for page in pages() for block in blocks(page)]
        self.assertEqual(set(found) ^ {*RUN, *ELSEWHERE}, set())

    def test_the_blocks_run(self):
        for page, beginning in RUN:
            if beginning.startswith(("dlrm-scaling", "dlrm-bench batch-sweep")) and not has_yaml():
                continue
            with self.subTest(page=page, block=beginning):
                self.run_block(page, beginning)
        self.assertEqual(self.sh("head -c 6 predictions.csv"), "sample")
        self.assertIn("probability", self.sh("cat answers.jsonl"))

    def test_the_readme_resumes_on_another_number_of_ranks(self):
        shutil.rmtree(self.path("demo"), ignore_errors=True)
        text = self.run_block("README.md", "launch/build.sh cpu programs")
        self.assertIn("step 5/5", text)
        self.assertRegex(text, r"plan: 4 ranks[^$]*plan: 3 ranks")

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def test_the_readme_has_a_config_that_is_read(self):
        self.write("mine.yaml", fenced("README.md", "yaml")[0])
        self.assertIn("plan: 2 ranks, 22 tables", self.sh("dlrm-plan mine.yaml --ranks 2"))

    def test_the_page_on_sharding_shows_the_plan_of_its_config(self):
        self.write("sharding.yaml", fenced("docs/sharding.md", "yaml")[0])
        planned = self.sh("dlrm-plan sharding.yaml --ranks 4")
        (printed,) = [block for block in fenced("docs/sharding.md") if block.startswith("plan:")]
        for line in printed.splitlines():
            self.assertIn(line, planned)


def has_yaml():
    return not subprocess.run([sys.executable, "-c", "import yaml"], capture_output=True, check=False).returncode


if __name__ == "__main__":
    PROGRAMS = os.path.abspath(sys.argv.pop(1))
    unittest.main()
