"""Data that other imports encoded than that of the model is refused, unless dictionaries grew. Usage:
preprocessing_programs_test.py DLRM_DATA DLRM_TRAIN DLRM_INFER"""
import os
import subprocess
import sys

from import_fixture import main
from serving_fixture import Serving, take_programs

SCHEMA = "label: click\ndense: [{column: age, standardise: true}]\nsparse: [user, {column: page, hash: 50}]\n"


def log(*users, first=0):
    return "click,age,user,page\n" + "".join(f"{i % 2},{first + i},{user},{i}\n" for i, user in enumerate(users * 4))


class Agreement(Serving):
    def imported(self, name, users, *options, schema=SCHEMA, first=0):
        self.write("schema.yaml", schema)
        self.run_program(self.data, "import", "schema.yaml", self.write("log.csv", log(*users, first=first)), "--output", name, *options)

    def setUp(self):
        super().setUp()
        self.imported("train.h5", ["ann", "bob"], "--dictionary", "words.json", "--write-config", "model.yaml")
        frozen = ("--dictionary", "words.json", "--frozen-dictionary")
        self.imported("same.h5", ["bob", "eve"], *frozen)
        self.imported("grown.h5", ["eve", "bob"], "--dictionary", "words.json")
        self.imported("other.h5", ["bob", "ann"])
        self.imported("rows.h5", ["ann", "bob"], schema=SCHEMA.replace("50", "40"))
        self.imported("moments.h5", ["ann", "bob"], first=100)

    def run_train(self, *settings, command=(), options=(), users="model.tables.1.rows=4"):
        words = [users, "train.steps=2", "train.global_batch_size=4", "output.directory=run", *settings]
        return subprocess.run([*command, self.train, "model.yaml", *(word for text in words for word in ("--set", text)), *options],
                              cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={"OMP_NUM_THREADS": "1", **os.environ, "DLRM_PYTHON": sys.executable})

    def assert_refused(self, done, start):
        self.assertEqual(done.returncode, 2, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertTrue(errors[0].startswith(f"error: {start}"), errors[0])

    def test_data_of_a_run_must_be_encoded_alike(self):
        for name, what in (("other.h5", "the dictionary of user"), ("rows.h5", "the number of rows of page"),
                           ("moments.h5", "the mean of age")):
            for place in ("test", "valid"):
                with self.subTest(name=name, place=place):
                    self.assert_refused(self.run_train(f"data.{place}={name}"), f"{name}: {what} is not that of train.h5")
            self.assert_refused(self.run_train(f"data.train=[train.h5, {name}]"), f"{name}: {what} is not that of train.h5")
        self.assert_refused(self.run_train("data.test=other.h5", command=("mpirun", "-np", "2", "--oversubscribe")),
                            "other.h5: the dictionary of user is not that of train.h5")
        for settings in (["data.test=same.h5"], ["data.test=grown.h5"], ["data.train=[grown.h5, train.h5]", "data.test=same.h5"]):
            done = self.run_train(*settings, options=["--overwrite"])
            self.assertEqual(done.returncode, 0, done.stderr)
            warned = "warning: grown.h5: its dictionaries have values that those of train.h5 lack" in done.stderr
            self.assertEqual(warned, settings == ["data.test=grown.h5"], done.stderr)

    def test_features_that_the_model_lacks_may_differ(self):
        with open(self.path("model.yaml"), encoding="utf-8") as file:
            lines = [line for line in file if "page" not in line]
        self.write("model.yaml", "".join(lines))
        done = self.run_train("data.test=rows.h5", users="model.tables.0.rows=4")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_data_must_be_encoded_as_that_of_the_checkpoint(self):
        self.imported("later.h5", ["eve", "bob"], "--dictionary", "words.json", "--frozen-dictionary")
        done = self.run_train("data.train=grown.h5", "checkpoint.directory=ckpt", "checkpoint.at_end=true")
        self.assertEqual(done.returncode, 0, done.stderr)
        saved = "ckpt/step_000000002"
        for name, what in (("other.h5", "the dictionary of user"), ("moments.h5", "the mean of age")):
            for options in (["--eval-only"], ["--predict", "p.csv"]):
                done = self.run_train(f"data.test={name}", "checkpoint.directory=ckpt", options=options)
                self.assert_refused(done, f"{name}: {what} is not that of {saved}")
                self.assertFalse(os.path.exists(self.path("p.csv")))
            for options in (["--resume"], ["--init-from=ckpt", "--overwrite"]):
                done = self.run_train(f"data.train={name}", "checkpoint.directory=ckpt", "train.steps=3", options=options)
                self.assert_refused(done, f"{name}: {what} is not that of {saved}")
        for name in ("same.h5", "later.h5"):  # of fewer values, and of the same
            done = self.run_train(f"data.test={name}", "checkpoint.directory=ckpt", options=["--predict", "p.csv"])
            self.assertEqual(done.returncode, 0, done.stderr)
        # A checkpoint of the fewer values would follow, whose model knows more.
        done = self.run_train("data.train=train.h5", "checkpoint.directory=ckpt", "train.steps=3", options=["--resume"])
        self.assert_refused(done, f"train.h5: the dictionary of user is not that of {saved}")
        done = self.run_train("data.train=later.h5", "checkpoint.directory=ckpt", "train.steps=3", options=["--resume"])
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    take_programs()
    main()
