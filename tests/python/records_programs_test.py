"""Records that dlrm-infer and dlrm-train --predict encode get the numbers and ids that the import gave them: records of
drawn schemas and values, as CSV, JSON lines and Parquet. Usage: records_programs_test.py DLRM_DATA DLRM_TRAIN DLRM_INFER"""
import csv
import decimal
import gzip
import json
import os
import random
import select
import shutil
import subprocess
import sys
import time

import h5py
import numpy as np

from import_fixture import ABSENT, main
from serving_fixture import Serving, take_programs

if not ABSENT:
    from dlrm import Encoder

ROUNDS = 2
RECORDS = 150

# Texts that are numbers in several spellings, white space of Unicode, and what only looks like a number.
TEXTS = ["", "a", "u17", "12", "12.0", "1.2e1", "012", "+12", "1.10", "12e5", "-0", "-0.0", "0", "0.0e0", "1e22", "5e-324",
         "1.5e300", "-3.25", "1e999", "1e-999", "é", "\u3000x\u2003", "true", "NA", "NaN", "null", "x" * 70, "deadbeef", "0x1f",
         "9223372036854775808", "12.000000000000000000000001", "-7E0", "7.", ".5", "1_0"]
NUMBERS = ["", "NA", " 3 ", "-1", "0", "0.1", "1e-3", "12.0", "99", "1e6", "1e-300", "\u20037\t", "007"]
WHOLES = ["", "null", "0", "3", "48", " 7", "12.0", "1.2e1", "0x1f", "007"]
HEXES = ["", "ff", "FF", "0", "deadbeef", "12"]
JSON_TEXTS = TEXTS + [12, -3, 0, 12.0, 0.1, 1e22, -2.5e-8, True, False, None, 2**64, 2**70, -2**65, 1e15, 123456789.125]
JSON_NUMBERS = NUMBERS + [1, -5, 2.5, None, 1e6, 2**20]
JSON_WHOLES = WHOLES + [1, 12.0, None, 49, 0]


def schema_of(draw, columns):
    """A schema of drawn treatments of these columns, as YAML."""
    lines = ["label: click", "dense:"]
    for name in columns["dense"]:
        keys = [f"column: {name}", f"fill: {draw.choice([0, -2.5, 7])}"]
        keys += draw.sample(["clip: [-1, 50.5]", "log: true", "standardise: true"], draw.randrange(4))
        lines.append("  - {" + ", ".join(keys) + "}")
    lines.append("sparse:")
    for name in columns["text"]:
        keys = [f"column: {name}", draw.choice(["dictionary: {threshold: 2}", "dictionary: {}", "hash: 97"])]
        keys += draw.sample(["fill: none", "table: shared"], draw.randrange(2)) if "dictionary: {}" in keys else []
        lines.append("  - {" + ", ".join(keys) + "}")
    for name in columns["whole"]:
        way = draw.choice(["integers: 50", "values: integer", "hash: 31, values: integer"])
        lines.append(f"  - {{column: {name}, {way}, fill: {draw.choice([0, 5])}}}")
    for name in columns["hex"]:
        lines.append(f"  - {{column: {name}, values: hex{draw.choice(['', ', hash: 13'])}}}")
    for name in columns["list"]:
        bag = draw.choice(["separator: '|'", "separator: '|', cap: 2", "separator: '|', cap: 2, keep: last"])
        lines.append(f"  - {{column: {name}, list: {{{bag}}}, {draw.choice(['dictionary: {}', 'hash: 50'])}}}")
    return "\n".join(lines) + "\n"


# Many columns, because each round starts many programs.
COLUMNS = {kind: [f"{kind[0]}{i}" for i in range(count)]
           for kind, count in (("dense", 9), ("text", 9), ("whole", 6), ("hex", 3), ("list", 6))}


def items(draw):
    return [draw.choice([text for text in TEXTS if "|" not in text]) for _ in range(draw.randrange(5))]


def text_record(draw):
    record = {"click": draw.choice("01")}
    for kind, values in (("dense", NUMBERS), ("text", TEXTS), ("whole", WHOLES), ("hex", HEXES)):
        record.update((name, draw.choice(values)) for name in COLUMNS[kind])
    record.update((name, "|".join(items(draw))) for name in COLUMNS["list"])
    return record


def json_record(draw):
    record = {"click": draw.choice([0, 1])}
    for kind, values in (("dense", JSON_NUMBERS), ("text", JSON_TEXTS), ("whole", JSON_WHOLES), ("hex", HEXES + [12])):
        record.update((name, draw.choice(values)) for name in COLUMNS[kind])
    record.update((name, items(draw)) for name in COLUMNS["list"])
    return record


def parquet_table(draw, count):
    """Columns of the types that Arrow has for such values."""
    import pyarrow as pa
    def column(kind, *values):
        return pa.array([draw.choice(values) for _ in range(count)], kind)
    words = [text for text in TEXTS if "|" not in text]
    dates = [None, *range(0, 20000, 777)]
    money = [None, *(decimal.Decimal(text) for text in ("0.10", "12.00", "-3.25"))]
    texts = [column(pa.string(), None, *words).dictionary_encode(), column(pa.large_string(), None, *words),
             column(pa.float32(), None, 0.1, 12.0, 1e22, float("nan"), -2.5e-8), column(pa.decimal128(9, 2), *money),
             column(pa.bool_(), None, True, False), column(pa.date32(), *dates), column(pa.int8(), None, -7, 12)]
    numbers = [column(pa.float32(), None, 0.1, -3.3, 1e6, 1e-30), column(pa.int16(), None, 3, -5), column(pa.string(), *NUMBERS),
               column(pa.decimal128(9, 2), *money), column(pa.float64(), None, 0.1, 7e-300, 2.0**40)]
    wholes = [column(pa.int64(), None, 0, 3, 48), column(pa.float64(), None, 12.0, 49.0), column(pa.string(), *WHOLES),
              column(pa.uint8(), None, 1, 49)]
    lists = [pa.array([[draw.choice(words) for _ in range(draw.randrange(5))] for _ in range(count)], pa.list_(pa.string())),
             pa.array([draw.choice([None, [], [3, 12, 3], [7]]) for _ in range(count)], pa.list_(pa.int32())),
             pa.array(["|".join(items(draw)) for _ in range(count)])]
    kinds = {"dense": numbers, "text": texts, "whole": wholes, "hex": [column(pa.string(), *HEXES)], "list": lists}
    found = {"click": column(pa.int64(), 0, 1), "key": pa.array([f'k"{i},' for i in range(count)]), "score": column(pa.float32(), 0.1, 7.5)}
    for kind, names in COLUMNS.items():
        found.update((name, draw.choice(kinds[kind])) for name in names)
    return pa.table(found)


def quoted(text):
    return '"' + text.replace('"', '""') + '"' if text == "" or any(c in text for c in ',"\n') else text


class Records(Serving):
    def compare(self, samples):
        """The samples of an answer are those of the dataset, bit by bit."""
        with h5py.File(self.path("train.h5")) as data:
            dense = np.array([sample["dense"] for sample in samples], np.float32)
            np.testing.assert_array_equal(dense, data["dense"][:])
            self.assertEqual(sorted(samples[0]["ids"]), sorted(data["sparse"]))
            for name, feature in data["sparse"].items():
                ids = feature["ids"][:].tolist()
                ends = feature["offsets"][:] if "offsets" in feature else range(len(ids) + 1)
                for record, sample in enumerate(samples):
                    known = ids[ends[record]:ends[record + 1]]
                    self.assertEqual(sample["ids"][name], known, f"feature {name}, record {record}")

    def compare_frame(self, frame):
        """Python makes the samples of the dataset, too."""
        dense, sparse = Encoder.load(self.path("ckpt"))(frame)
        self.compare([{"dense": dense[i].tolist(), "ids": {name: ids[offsets[i]:offsets[i + 1]].tolist()
                                                           for name, (ids, offsets, _) in sparse.items()}}
                      for i in range(len(dense))])

    def dataset_samples(self):
        """What the import made of the records, as a request of ids."""
        with h5py.File(self.path("train.h5")) as data:
            samples = [{"dense": row.tolist(), "ids": {}} for row in data["dense"][:]]
            for name, feature in data["sparse"].items():
                ids = feature["ids"][:].tolist()
                ends = feature["offsets"][:] if "offsets" in feature else range(len(ids) + 1)
                for i, sample in enumerate(samples):
                    sample["ids"][name] = ids[ends[i]:ends[i + 1]]
        return samples

    def check_files(self, log, key, keys, ranks=1):
        """Programs predict the records of a file as the samples that the import made of them. `keys`: their values."""
        with self.server() as url:
            status, known = self.ask(url + "/predict", {"samples": self.dataset_samples()})
        self.assertEqual(status, 200, known)
        done = subprocess.run([self.infer, "ckpt", "--records", log, "--keys", key], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "DLRM_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer.get("probability", answer) for answer in answers], known["probabilities"])
        self.assertEqual([answer[key] for answer in answers], keys)
        self.predict(log, key, command=("mpirun", "-np", str(ranks), "--oversubscribe") if ranks > 1 else ())
        with open(self.path("p.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual(rows[0], ["sample", key, "probability"])
        self.assertEqual([row[:2] for row in rows[1:]], [[str(i), str(text)] for i, text in enumerate(keys)])
        np.testing.assert_allclose([float(row[2]) for row in rows[1:]], known["probabilities"], rtol=0, atol=1e-6)

    def predict(self, log, keys, *settings, command=()):
        self.run_program(*command, self.train, "model.yaml", "--predict", "p.csv", "--records", log, "--keys", keys, "--resume=ckpt",
                         *(word for text in ("train.global_batch_size=32", "output.directory=none", *settings) for word in ("--set", text)))
        self.assertEqual(os.listdir(self.path("none")), [])

    def test_parquet(self):
        import pyarrow.parquet
        for seed in range(2 * ROUNDS):
            with self.subTest(seed=seed):
                draw = random.Random(seed)
                table = parquet_table(draw, RECORDS)
                pyarrow.parquet.write_table(table, self.path("log.parquet"), row_group_size=draw.choice((7, 60, 1000)))
                shutil.rmtree(self.path("ckpt"), ignore_errors=True)
                self.trained(schema_of(draw, COLUMNS), "log.parquet")
                key = "key" if seed % 2 else "score"
                keys = table[key].to_pylist() if seed % 2 else [round(score, 1) for score in table[key].to_pylist()]
                self.check_files("log.parquet", key, keys, ranks=(1, 3)[seed // 2])

    def test_csv(self):
        for seed in range(ROUNDS):
            with self.subTest(seed=seed):
                draw = random.Random(seed)
                records = [text_record(draw) for _ in range(RECORDS)]
                names = list(records[0])
                lines = [",".join(names)] + [",".join(quoted(record[name]) for name in names) for record in records]
                shutil.rmtree(self.path("ckpt"), ignore_errors=True)
                self.trained(schema_of(draw, COLUMNS), self.write("log.csv", "\n".join(lines) + "\n"))
                self.check(records)
                self.check_files("log.csv", "t0", [record["t0"] for record in records], ranks=(1, 3)[seed])
                self.compare_frame({name: [record[name] for record in records] for name in names})

    def test_json(self):
        for seed in range(ROUNDS):
            with self.subTest(seed=seed):
                draw = random.Random(seed)
                records = [json_record(draw) for _ in range(RECORDS)]
                shutil.rmtree(self.path("ckpt"), ignore_errors=True)
                text = "".join(json.dumps(record) + "\n" for record in records)
                self.trained(schema_of(draw, COLUMNS), self.write("log.jsonl", text))
                self.check(records)
                self.check_files("log.jsonl", "h0", [record["h0"] for record in records], ranks=(1, 3)[seed])

    def check(self, records):
        with self.server() as url:
            status, answer = self.ask(url + "/predict?explain=ids", {"records": records})
            self.assertEqual(status, 200, answer)
            self.compare(answer["samples"])
            # What a record does not say, the shared part says.
            status, split = self.ask(url + "/predict?explain=ids", {"records": [records[0], {}], "shared": records[1]})
            self.assertEqual(status, 200, split)
            self.assertEqual(split["samples"], answer["samples"][:2])
            # The samples of the answer are a request, too.
            status, again = self.ask(url + "/predict", {"samples": answer["samples"]})
            self.assertEqual(again, {"probabilities": answer["probabilities"]})

    def test_exports_carry_the_preprocessing(self):
        self.trained("label: click\ndense: [age]\nsparse: [user]\n", self.write("log.csv", "click,age,user\n1,3,a\n0,4,b\n"))
        self.run_program(self.data, "export", "ckpt", "--to", "npz", "model.npz")
        with h5py.File(self.path("train.h5")) as data, open(self.path("model.preprocessing.gz"), "rb") as export:
            self.assertEqual(export.read(), data["preprocessing"][:].tobytes())

    def test_slices_have_the_values_of_their_ids(self):
        lines = "".join(f"{i % 2},{'abb'[i % 3]}é,{i % 2:x}f\n" for i in range(60))
        self.write("schema.yaml", "label: click\nsparse: [user, {column: code, values: hex}]\n")
        self.write("log.csv", "click,user,code\n" + lines)
        self.run_program(self.data, "import", "schema.yaml", "log.csv", "--output", "data.h5", "--write-config", "model.yaml")
        for feature, expected in (("user", {1: "aé", 2: "bé"}), ("code", {1: "f", 2: "1f"})):
            self.run_program(self.train, "model.yaml", "--set", "train.steps=2", "--set", "train.global_batch_size=30", "--set",
                             "data.test=data.h5", "--set", f"eval.slice_by={feature}", "--set", f"output.directory={feature}", "--overwrite")
            with open(self.path(feature + "/summary.json"), encoding="utf-8") as file:
                slices = json.load(file)["eval"]["by_id"]["slices"]
            self.assertEqual({part["id"]: part["value"] for part in slices}, expected)

    def test_a_log_is_cut_as_the_schema_said(self):
        records = [(i % 2, i, f"u{i};'" if i % 3 else "it's") for i in range(40)]
        lines = "".join(f"{click};{age};'{user.replace(chr(39), 2 * chr(39))}'\n" for click, age, user in records)
        users = [user for *_, user in records]
        for head, form in (("", "{type: csv, delimiter: ';', quote: \"'\", header: false, columns: [click, age, user]}"),
                           ("click;age;user\n", "{type: csv, delimiter: ';', quote: \"'\"}")):
            for name in ("log.csv", "log.txt", "log.csv.gz", "log"):
                with self.subTest(head=head, name=name):
                    text = (head + lines).encode()
                    self.write(name, gzip.compress(text) if name.endswith(".gz") else text)
                    shutil.rmtree(self.path("ckpt"), ignore_errors=True)
                    self.trained(f"format: {form}\nlabel: click\ndense: [age]\nsparse: [user]\n", name)
                    if name.endswith(".gz"):
                        self.predict(name, "user")
                    else:
                        self.check_files(name, "user", users)

    def test_records_that_cannot_be_predicted_are_named(self):
        self.trained("label: click\ndense: [age]\nsparse: [user]\n", self.write("log.csv", "click,age,user\n1,3,a\n0,4,b\n"))
        import pyarrow as pa
        import pyarrow.parquet
        pyarrow.parquet.write_table(pa.table({"age": ["1", "2", "x"], "user": ["a", "b", "c"]}), self.path("bad.parquet"), row_group_size=2)
        pyarrow.parquet.write_table(pa.table({"user": ["a"]}), self.path("less.parquet"))
        self.write("bad.csv", "user,age\na,1\nb,x\n")
        self.write("bad.jsonl", '{"age": 1}\n{"age": "x"}\n')
        self.write("less.csv", "user\na\n")
        for name, expected in (("bad.parquet", "bad.parquet, record 2: column age: 'x' is not a number"),
                               ("bad.csv", "bad.csv:3: column age: 'x' is not a number"),
                               ("bad.jsonl", "bad.jsonl:2: column age: 'x' is not a number"),
                               ("less.csv", "less.csv:1: there is no column age; there are user"),
                               ("less.parquet", "less.parquet: there is no column age; there are user"),
                               ("none.csv", "none.csv: cannot open the text: No such file or directory")):
            with self.subTest(name=name):
                done = subprocess.run([self.train, "model.yaml", "--predict", "p.csv", "--records", name, "--keys", "user", "--resume=ckpt"],
                                      cwd=self.folder, capture_output=True, text=True, env={**os.environ, "DLRM_PYTHON": sys.executable})
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"error: {expected}\n", done.stderr)
                self.assertFalse(os.path.exists(self.path("p.csv")))
        done = subprocess.run([self.infer, "ckpt", "--records", "bad.parquet", "--keys", "user"], cwd=self.folder, capture_output=True,
                              text=True, env={**os.environ, "DLRM_PYTHON": sys.executable})
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(answer["user"], answer.get("error")) for answer in answers],
                         [("a", None), ("b", None), ("c", "age: 'x' is not a number")])

    def test_keys_that_are_missing_or_infinite(self):
        self.trained("label: click\ndense: [age]\nsparse: [user]\n", self.write("log.csv", "click,age,user\n1,3,a\n0,4,b\n"))
        import pyarrow as pa
        import pyarrow.parquet
        scores = [1.5, float("nan"), float("inf"), -float("inf"), None]
        pyarrow.parquet.write_table(pa.table({"age": [1] * 5, "user": ["null"] * 5, "score": scores}), self.path("log.parquet"))
        done = subprocess.run([self.infer, "ckpt", "--records", "log.parquet", "--keys", "score,user"], cwd=self.folder,
                              capture_output=True, text=True, env={**os.environ, "DLRM_PYTHON": sys.executable})
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(a["score"], a["user"]) for a in answers], [(s, "null") for s in (1.5, None, "inf", "-inf", None)])
        self.predict("log.parquet", "score,user")
        with open(self.path("p.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))[1:]
        self.assertEqual([row[1:3] for row in rows], [[text, "null"] for text in ("1.5", "", "inf", "-inf", "")])

    def test_files_of_records(self):
        records = [{"click": 1, "age": age, "user": f"u{age}"} for age in range(20)]
        log = self.write("log.jsonl", "".join(json.dumps(record) + "\n" for record in records))
        self.trained("label: click\ndense: [age]\nsparse: [user]\n", log)
        done = subprocess.run([self.infer, "ckpt", "--records", log, "--keys", "user,none"], cwd=self.folder,
                              capture_output=True, text=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(answer["user"], answer["none"]) for answer in answers],
                         [(record["user"], None) for record in records])
        with self.server() as url:
            _, known = self.ask(url + "/predict", {"records": records})
        self.assertEqual([answer["probability"] for answer in answers], known["probabilities"])
        table = "user,more,age\n" + "".join(f'"{r["user"]}",,{r["age"]}\n' for r in records)
        for name, text in (("log.csv", table), ("log.tsv", table.replace(",", "\t").replace('"', ""))):
            done = subprocess.run([self.infer, "ckpt", "--records", self.write(name, text), "--keys", "user,more"],
                                  cwd=self.folder, capture_output=True, text=True)
            self.assertEqual([json.loads(line) for line in done.stdout.splitlines()],
                             [{"user": answer["user"], "more": "", "probability": answer["probability"]}
                              for answer in answers])
        done = subprocess.run([self.infer, "ckpt", "--records", "-", "--format", "csv"], cwd=self.folder, capture_output=True,
                              input="user,old\nu1,2\n", text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("error: line 1: there is no column age; there are user, old\n", done.stderr)
        lines = '{"age": 1}\n{"age": "x", "user": "u3"}\nno\n{"age": 2}\n'
        done = subprocess.run([self.infer, "ckpt", "--records", "-", "--keys", "user"], cwd=self.folder, input=lines,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer.get("error") for answer in answers],
                         [None, "age: 'x' is not a number", "not JSON: error at byte 2", None])
        self.assertEqual(answers[1]["user"], "u3")

    def test_a_header_may_arrive_before_the_first_line(self):
        self.trained("label: click\ndense: [age]\nsparse: [user]\n", self.write("log.csv", "click,age,user\n1,3,a\n0,4,b\n"))
        with self.server() as url:
            _, known = self.ask(url + "/predict", {"records": [{"age": 3, "user": "a"}, {"age": 4, "user": "x"}]})
        reading, writing = os.pipe()
        with subprocess.Popen([self.infer, "ckpt", "--records", "-", "--format", "csv"], cwd=self.folder, stdin=reading,
                              stdout=subprocess.PIPE, text=True) as asked, open(writing, "wb", buffering=0) as lines:
            for line, expected in ((b"user,age\n", None), (b"a,3\n", 0), (b"x,4\n", 1)):
                lines.write(line)
                self.wait_until_read(reading)
                if expected is not None:
                    answer = json.loads(asked.stdout.readline())
                    self.assertAlmostEqual(answer["probability"], known["probabilities"][expected], delta=1e-6)
            os.close(reading)
            lines.close()
            self.assertEqual((asked.stdout.read(), asked.wait()), ("", 0))

    def wait_until_read(self, pipe):
        """Until nothing is left in a pipe, at most for a minute."""
        for _ in range(6000):
            if not select.select([pipe], [], [], 0)[0]:
                return
            time.sleep(0.01)
        self.fail("the program reads nothing")

    def test_a_model_of_ids_says_so(self):
        self.write("ids.yaml", "model: {dense_features: 1, bottom_mlp: [4], top_mlp: [1], embedding_dim: 4, tables: "
                   "[{name: a, rows: 9}]}\ndata: {source: synthetic}\ntrain: {steps: 1, global_batch_size: 8}\n"
                   "checkpoint: {directory: ckpt, every_steps: 1}\n")
        self.run_program(self.train, "ids.yaml")
        with self.server() as url:
            status, answer = self.ask(url + "/predict", {"records": [{"a": 1}]})
        self.assertEqual((status, answer), (400, {
            "error": "the model takes ids: its training data was not written by dlrm-data import"}))
        done = subprocess.run([self.infer, "ckpt", "--records", "-"], cwd=self.folder, input="{}\n", capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_wrong_records_name_record_and_field(self):
        lines = "click,age,user\n1,3,a\n0,4,b\n"
        self.trained("label: click\ndense: [age]\nsparse: [user]\n", self.write("log.csv", lines))
        with self.server() as url:
            for body, expected in (
                    ({"records": [{"age": 1}, {"age": "old"}]}, "records[1].age: 'old' is not a number"),
                    ({"records": [{"user": "a"}]}, "records[0].age: is missing, and the schema has no `fill` for it"),
                    ({"records": [{"age": [1]}]}, "records[0].age: a list; needs one value"),
                    ({"records": [{"age": 1, "user": {"id": 3}}]},
                     "records[0].user: an object; needs a text, a number or a list of them"),
                    ({"shared": {"age": "x"}, "records": [{}]}, "records[0].age: 'x' is not a number"),
                    ({"records": {"age": 1}}, "records: an object; needs a list of records"),
                    ({"records": [3]}, "records[0]: 3; needs an object"),
                    ({"records": [], "more": 1}, "unknown key 'more'; needs an object such as "
                     '{"records": [{"user": "u17"}]}')):
                self.assertEqual(self.ask(url + "/predict", body), (400, {"error": expected}))
            self.assertEqual(self.ask(url + "/predict", {"records": []}), (200, {"probabilities": []}))
            # Fields that the schema does not name are left out, whatever they hold.
            status, _ = self.ask(url + "/predict", {"records": [{"age": 1, "more": {"a": [1, {"b": 2}]}, "user": "a"}]})
            self.assertEqual(status, 200)

    def test_shared_lists_take_a_bounded_memory(self):
        lines = '{"y": 1, "a": 1, "tags": [1, 2]}\n{"y": 0, "a": 2, "tags": [2]}\n'
        self.trained("label: y\ndense: [{column: a, fill: 0}]\nsparse: [{column: tags, list: true}]\n",
                     self.write("log.json", lines))
        with self.server() as url:
            for items, records, status in ((1 << 13, 1 << 10, 200), (1 << 13, (1 << 10) + 1, 400)):
                body = {"shared": {"tags": [1] * items}, "records": [{}] * records}
                self.assertEqual(self.ask(url + "/predict", body)[0], status)


if __name__ == "__main__":
    take_programs()
    main()
