"""`data.source: parquet`: training on Parquet files equals training on the dataset that the import makes of them.
Usage: parquet_programs_test.py DLRM_DATA DLRM_TRAIN"""
import glob
import json
import os
import random
import signal
import subprocess
import sys

from import_fixture import Importing, main

DATA = TRAIN = ""
SCHEMA = """
label: click
dense: [{column: age, fill: 3, log: true}, {column: price, standardise: true}]
sparse: [user, {column: page, hash: 50}, {column: item, integers: 30, fill: 2}, {column: tags, list: {cap: 3}}]
weight: {column: weight, fill: 1}
"""
BLOCK = 16384  # samples of a block of the shuffled order


class Parquet(Importing):
    def run_program(self, *command, code=0):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={"OMP_NUM_THREADS": "1", **os.environ, "DLRM_PYTHON": sys.executable})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def parquet(self, name, count, seed, group):
        import pyarrow as pa
        import pyarrow.parquet
        r = random.Random(seed)
        columns = {
            "click": [r.randrange(2) for _ in range(count)], "age": [r.choice((None, r.randrange(90))) for _ in range(count)],
            "price": [r.expovariate(0.1) for _ in range(count)], "user": [f"u{r.randrange(40)}" for _ in range(count)],
            "page": [r.choice((None, f"p{r.randrange(99)}")) for _ in range(count)],
            "item": [r.choice((None, r.randrange(30))) for _ in range(count)],
            "tags": [[f"t{r.randrange(9)}" for _ in range(r.randrange(5))] for _ in range(count)],
            "weight": [r.choice((None, 0.5, 2.0)) for _ in range(count)]}
        pyarrow.parquet.write_table(pa.table(columns), self.path(name), row_group_size=group)

    def imported_files(self, count=2 * BLOCK + 500, group=BLOCK):
        """Two Parquet files, and the dataset and config of both."""
        os.mkdir(self.path("logs"))
        self.parquet("logs/a.parquet", count, 1, group)
        self.parquet("logs/b.parquet", 700, 2, group)
        self.write("schema.yaml", SCHEMA)
        self.run_program(DATA, "import", "schema.yaml", "logs/a.parquet", "logs/b.parquet", "--output", "train.h5",
                         "--dictionary", "d.json", "--write-config", "model.yaml")

    def train(self, name, *settings, code=0, source=True, command=(), resume=False):
        """Trains on the files, or with `source` false on the dataset. Returns the losses of all steps."""
        words = ["data.source=parquet", "data.train=[logs]", "data.schema=schema.yaml", "data.dictionary=d.json",
                 "data.test=[logs/b.parquet]"] if source else ["data.test="]
        length = [] if any(setting.startswith("train.steps") for setting in settings) else ["train.epochs=2"]
        words += ["train.global_batch_size=1000", *length, "output.metrics_every=1", f"output.directory={name}",
                  f"checkpoint.directory={name}.ckpt", *settings]
        said = self.run_program(*command, TRAIN, "model.yaml", "--resume" if resume else "--overwrite", *(word for text in words for word in ("--set", text)),
                                code=code)
        if code:
            return said
        with open(self.path(f"{name}/metrics.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        return {record["step"]: record["loss"] for record in records if "loss" in record and "step" in record}

    def test_losses_are_those_of_the_dataset(self):
        self.imported_files()
        for shuffle in ("true", "false"):
            with self.subTest(shuffle=shuffle):
                # The last row group of the first file and the second file are one block each.
                order = "data.shuffle=false" if shuffle == "false" else "data.shuffle=true"
                expected = self.train("dataset", order, source=False)
                self.assertGreater(len(expected), 60)
                self.assertEqual(self.train("files", order), expected)
                self.assertEqual(self.train("none", order, "data.workers=0"), expected)

    def test_ranks_and_a_resume_change_nothing(self):
        self.imported_files(3000, 700)
        expected = self.train("whole", "train.global_batch_size=300")
        ranks = self.train("ranks", "train.global_batch_size=300", command=("mpirun", "-np", "3", "--oversubscribe"))
        self.assertEqual(ranks.keys(), expected.keys())
        for step, loss in expected.items():
            self.assertAlmostEqual(ranks[step], loss, places=5)
        # Step 7 is in the middle of a row group.
        self.train("part", "train.global_batch_size=300", "train.steps=7")
        rest = self.train("part", "train.global_batch_size=300", resume=True)
        self.assertEqual({step: rest[step] for step in expected if step > 7},
                         {step: expected[step] for step in expected if step > 7})

    def test_a_checkpoint_has_the_preprocessing_and_refuses_another(self):
        import h5py
        self.imported_files(900, 300)
        self.train("files")
        with h5py.File(self.path("train.h5")) as data, h5py.File(glob.glob(self.path("files.ckpt/*/index.h5"))[0]) as kept:
            self.assertEqual(kept["preprocessing"][:].tobytes(), data["preprocessing"][:].tobytes())
        self.parquet("c.parquet", 300, 3, 300)
        self.run_program(DATA, "import", "schema.yaml", "c.parquet", "--output", "other.h5")
        def evaluated(name, code):
            return self.run_program(TRAIN, "model.yaml", "--eval-only", "--resume=files.ckpt", "--set", f"data.test={name}", "--set",
                                    "train.global_batch_size=1000", "--set", "output.directory=evaluated", code=code)
        evaluated("train.h5", 0)
        self.assertIn("error: other.h5: the mean of price is not that of files.ckpt/step_", evaluated("other.h5", 2))

    def test_what_is_wrong_is_named(self):
        import pyarrow as pa
        import pyarrow.parquet
        self.imported_files(900, 300)
        for setting, expected in (
                ("data.train=[none.parquet]", "none.parquet: no such file"),
                ("data.train=['x*.parquet']", "x*.parquet: there is no file *.parquet or *.pq"),
                ("data.dictionary=", "data.dictionary is missing: schema.yaml has a dictionary, or a mean, of user"),
                ("data.schema=", "data.schema is missing"),
                ("model.tables.0.rows=3", "schema.yaml: feature item has 30 rows")):
            self.assertIn(expected, self.train("wrong", setting, code=2))
        table = pyarrow.parquet.read_table(self.path("logs/a.parquet"))
        items = table["item"].to_pylist()
        items[650] = 30
        table = table.set_column(table.schema.get_field_index("item"), "item", pa.array(items))
        pyarrow.parquet.write_table(table, self.path("logs/a.parquet"), row_group_size=300)
        self.assertIn("logs/a.parquet, record 650: column item: 30 is not from 0 to 29", self.train("wrong", code=2))
        with open(self.path("logs/a.parquet"), "r+b") as file:
            file.seek(1000)
            file.write(bytes(3000))
        self.assertIn("logs/a.parquet", self.train("wrong", code=2))

    def test_a_process_that_is_killed_ends_the_run(self):
        self.imported_files(60000, 100)
        command = [TRAIN, "model.yaml", "--overwrite"]
        for setting in ("data.source=parquet", "data.train=[logs]", "data.schema=schema.yaml", "data.dictionary=d.json",
                        "data.test=", "data.workers=1", "data.shuffle=false", "train.global_batch_size=2", "train.epochs=1000",
                        "output.directory=killed", "checkpoint.at_end=false"):
            command += ["--set", setting]
        run = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={"OMP_NUM_THREADS": "1", **os.environ, "DLRM_PYTHON": sys.executable})
        try:
            while "step 1/" not in run.stderr.readline():
                pass
            with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as file:
                children = file.read().split()
            self.assertTrue(children)
            for child in children:
                os.kill(int(child), signal.SIGKILL)
            said = run.communicate(timeout=100)[1].splitlines()
        finally:
            run.kill()
        self.assertEqual(run.returncode, 2, said)
        self.assertRegex(said[-1], r"^error: logs/.\.parquet: .* ended with signal Killed, which read it: ")


if __name__ == "__main__":
    DATA, TRAIN = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    main()
