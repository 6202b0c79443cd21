#!/usr/bin/env python3
"""`dlrm-data import`: JSON lines, Parquet, compressed and several files, schemas that it infers, and the configs that
it writes."""
import decimal
import gzip
import json
import os

import numpy as np

from dataset_test import content
from import_fixture import Dataset, Importing, main, pyarrow, yaml

SCHEMA = """
label: click
dense: [{column: age, fill: 7}]
sparse: [user, {column: page, hash: 99}, {column: item, values: integer, fill: 0}, {column: tags, list: {cap: 3}}]
"""


def records(count, seed=1):
    r = np.random.default_rng(seed)
    return [{"click": int(r.integers(0, 2)), "age": None if r.random() < 0.1 else float(r.integers(0, 99)) / 2,
             "user": f"u{r.integers(0, 50)}", "page": None if r.random() < 0.1 else f"/p{r.integers(0, 500)}",
             "item": int(r.integers(-5, 99)), "tags": [f"t{t}" for t in r.integers(0, 9, r.integers(0, 6))]}
            for _ in range(count)]


class Files(Importing):
    def csv(self, name, rows):
        lines = ["click,age,user,page,item,tags"]
        lines += [",".join("|".join(v) if isinstance(v, list) else "" if v is None else str(v) for v in row.values())
                  for row in rows]
        return self.write(name, "\n".join(lines) + "\n")

    def json(self, name, rows):
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def parquet(self, name, rows, **options):
        return self.table(name, pyarrow.Table.from_pylist(rows), **options)

    def table(self, name, table, **options):
        from pyarrow.parquet import write_table
        write_table(table, self.path(name), **options)
        return self.path(name)


class Formats(Files):
    def content_of(self, inputs, schema=SCHEMA):
        self.imported(schema, inputs)
        return content(self.path("out.h5"))

    def test_agree(self):
        rows = records(5000)
        expected = self.content_of(self.csv("x.csv", rows), SCHEMA.replace("cap: 3", "cap: 3, separator: '|'"))
        self.assertTrue(expected == self.content_of(self.json("x.jsonl", rows)))
        self.assertTrue(expected == self.content_of(self.parquet("x.parquet", rows)))
        self.assertTrue(expected == self.content_of(self.parquet("x.parquet", rows, row_group_size=700)))
        parts = [self.json("a.json", rows[:100]), self.parquet("b.pq", rows[100:2000]),
                 self.json("c.ndjson", rows[2000:])]
        self.assertTrue(expected == self.content_of(parts))

    def test_compressed_files_are_recognised(self):
        rows = records(3000)
        expected = self.content_of(self.json("x.jsonl", rows))
        data = [json.dumps(row).encode() + b"\n" for row in rows]
        halves = b"".join(data[:1000]), b"".join(data[1000:])
        self.assertTrue(expected == self.content_of(self.write("x.json.gz", b"".join(map(gzip.compress, halves)))))
        zstd = pyarrow.Codec("zstd")
        parts = [zstd.compress(half, asbytes=True) for half in halves]
        self.assertTrue(expected == self.content_of(self.write("x.json.zst", b"".join(parts))))
        self.assert_refused("cannot read", SCHEMA, self.write("x.json.gz", gzip.compress(halves[0])[:-100]))

    def test_values_of_another_type(self):
        rows = [{"y": True, "u": 5, "n": "12", "t": [1, 2]}, {"y": 0, "u": "5", "n": 3.0, "t": ["2", None]},
                {"y": "1", "u": 5.0, "n": 4, "t": None}]
        schema = "{label: y, dense: [n], sparse: [u, {column: t, list: true}, {column: n, name: m}]}"
        batch = self.imported(schema, self.json("x.json", [{**row, "y": int(row["y"])} for row in rows]))
        self.assertEqual(batch.sparse["u"].ids.tolist(), [1, 1, 1])
        self.assertEqual(self.lists(batch.sparse["t"]), [[1, 2], [2, 3], []])
        self.assertEqual((batch.dense[:, 0].tolist(), batch.sparse["m"].ids.tolist()), ([12, 3, 4], [1, 2, 3]))
        batch = self.imported("label: y", self.json("x.json", [{"y": True}, {"y": False}]))
        self.assertEqual(batch.label.tolist(), [1, 0])

    def test_floats_that_are_whole_are_the_same_text(self):
        batch = self.imported("{label: y, sparse: [u]}", [
            self.parquet("a.parquet", [{"y": 1, "u": 12.0}, {"y": 0, "u": 0.5}]),
            self.parquet("b.parquet", [{"y": 1, "u": 12}]), self.parquet("c.parquet", [{"y": 1, "u": "12"}])])
        self.assertEqual(batch.sparse["u"].ids.tolist(), [1, 2, 1, 1])

    def test_refuse_what_is_malformed(self):
        good = '{"y": 1, "a": 2, "t": [1]}\n'
        schema = "{label: y, dense: [a], sparse: [{column: t, list: true}]}"
        for line, expected in (("{", "x.json:2: '{' is not JSON"), ("null", "x.json:2: 'null' is not an object"),
                               ("[1]", "x.json:2: '[1]' is not an object"),
                               ('{"y": 1, "a": "q"}', "x.json:2: column a: 'q' is not a number"),
                               ('{"y": 1, "a": 1, "t": {"b": 1}}', "x.json:2: column t: '{\"b\": 1}' is no number"),
                               ('{"a": 1}', "x.json:2: column y: is missing"),
                               ('{"y": 1, "a": 1, "t": "b"}', "x.json:2: column t: '\"b\"' is no list, unlike"),
                               ('{"y": 1, "y": 1, "a": 1}', "x.json:2: column y: is there twice"),
                               (good.strip() + good.strip(), "x.json:2: ")):
            with self.subTest(line):
                path = self.write("x.json", good + line + "\n" + good)
                self.assert_refused(expected, schema, path)
                batch = self.imported(schema, path, "--skip-malformed")
                self.assertEqual(self.lists(batch.sparse["t"]), [[1], [1]])
        self.assert_refused("x.json:1: 'null' is not an object", "label: y", self.write("x.json", 'null\n{"y": 1}\n'))
        self.assert_refused("x.json:1: '[]' is not an object", schema, self.write("x.json", "[]\n"))
        self.assert_refused("record 1: column y: '2' is neither", "label: y", self.parquet("x.parquet", [
            {"y": 1}, {"y": 2}]))
        self.assert_refused("column y has the type struct", "label: y", self.parquet("x.parquet", [{"y": {"a": 1}}]))
        self.assert_refused("not a Parquet file", "label: y", self.write("x.parquet", "PAR1"))
        self.assert_refused("none of the first records has 'z'", "label: z", self.write("x.json", good))

    def test_texts_that_are_not_utf8(self):
        bad = pyarrow.Array.from_buffers(pyarrow.string(), 3, [
            None, pyarrow.py_buffer(np.array([0, 1, 2, 3], np.int32)), pyarrow.py_buffer(b"a\xffb")])
        self.table("x.parquet", pyarrow.table({"y": [1, 0, 1], "u": bad}))
        schema = "{label: y, sparse: [u]}"
        self.assert_refused("record 1: column u: the text is not UTF-8", schema, self.path("x.parquet"))
        batch = self.imported(schema, self.path("x.parquet"), "--skip-malformed")
        self.assertEqual(batch.sparse["u"].ids.tolist(), [1, 2])

        path = self.write("x.json", b'{"y": 1, "u": "a"}\n{"y": 0, "u": "\xff"}\n{"y": 1, "u": "b"}\n')
        self.assert_refused("x.json:2: ", schema, path)
        batch = self.imported(schema, path, "--skip-malformed")
        self.assertEqual(batch.sparse["u"].ids.tolist(), [1, 2])

    def test_json_lists_that_are_all_missing(self):
        path = self.json("x.json", [{"y": 1, "t": None}, {"y": 0}])
        batch = self.imported("{label: y, sparse: [{column: t, list: true}]}", path)
        self.assertEqual(self.lists(batch.sparse["t"]), [[], []])

    def test_decimals_are_the_nearest_numbers(self):
        numbers = [decimal.Decimal(text) for text in ("0.3", "0.7", "0.29")]
        path = self.table("x.parquet", pyarrow.table({"n": pyarrow.array(numbers, pyarrow.decimal128(9, 2))}))
        self.assertEqual(self.imported("label: {column: n, above: 0.3}", path).label.tolist(), [0, 1, 0])

    def test_a_list_with_a_text_that_is_not_utf8(self):
        texts = pyarrow.StringArray.from_buffers(4, pyarrow.py_buffer(np.array([0, 1, 2, 3, 4], np.int32)),
                                                 pyarrow.py_buffer(b"ab\xffc"))
        bags = pyarrow.ListArray.from_arrays(np.array([0, 1, 1, 3, 4], np.int32), texts)
        self.table("x.parquet", pyarrow.table({"y": [1, 0, 1, 0], "u": bags}))
        schema = "{label: y, sparse: [{column: u, list: {cap: 3}}]}"
        self.assert_refused("record 2: column u: the text is not UTF-8", schema, self.path("x.parquet"))
        batch = self.imported(schema, self.path("x.parquet"), "--skip-malformed")
        self.assertEqual(batch.sparse["u"].offsets.tolist(), [0, 1, 1, 2])
        self.assertEqual(batch.sparse["u"].ids.tolist(), [1, 2])

    def test_categories_of_a_data_frame(self):
        coded = pyarrow.DictionaryArray.from_arrays([2, 1, None, 2], ["a", "b", "c"])
        path = self.table("x.parquet", pyarrow.table({"y": [1, 0, 1, 1], "u": coded}))
        self.assertEqual(self.imported("{label: y, sparse: [u]}", path).sparse["u"].ids.tolist(), [1, 2, 3, 1])
        coded = pyarrow.DictionaryArray.from_arrays([2, 0, 2], ["a", "b", "c"])
        path = self.table("x.parquet", pyarrow.table({"y": [1, 0, 1], "u": coded}))
        self.imported("{label: y, sparse: [u]}", path)
        self.assertEqual(Dataset(self.path("out.h5")).features["u"].rows, 3)

    def test_dictionaries_of_parquet_change_nothing(self):
        rows = records(5000)
        for row in rows[::7]:
            row["user"], row["tags"] = None, ["t1", None, ""]
        rows[3]["tags"] = None
        expected = self.content_of(self.parquet("x.parquet", rows, use_dictionary=False))
        for options in ({}, {"row_group_size": 700}, {"dictionary_pagesize_limit": 50, "data_page_size": 100},
                        {"use_dictionary": ["page", "item"]}):
            path = self.parquet("x.parquet", rows, **options)
            self.assertTrue(expected == self.content_of(path), options)

    def test_a_category_without_a_value(self):
        from dlrm.importing.parquet import check_indices
        good = pyarrow.DictionaryArray.from_arrays([0, None, 1], ["a", "b"])
        check_indices(pyarrow.record_batch([good], ["u"]))
        for index in (2, -1):
            bad = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, index]), pyarrow.array(["a", "b"]), safe=False)
            with self.assertRaises(pyarrow.ArrowInvalid):
                check_indices(pyarrow.record_batch([bad], ["u"]))

    def test_times(self):
        import datetime
        days = [datetime.datetime(2024, 1, day, 12) for day in (1, 2, 3)]
        schema = "{label: y, dense: [n], timestamp: t, split: {time: 2024-01-02T12:00:00}}"
        rows = [{"y": 1, "n": day.day, "t": day} for day in days]
        seconds = [{**row, "t": int(row["t"].replace(tzinfo=datetime.timezone.utc).timestamp())} for row in rows]
        for inputs, form in ((self.parquet("a.parquet", rows), ""), (self.parquet("b.parquet", seconds), ""),
                             (self.json("a.json", [{**row, "t": str(row["t"])} for row in rows]), ""),
                             (self.json("b.json", [{**row, "t": row["t"].isoformat() + "Z"} for row in rows]), ""),
                             (self.write("c.csv", "y,n,t\n" + "".join(f"1,{r['n']},{r['t']}\n" for r in seconds)),
                              "format: seconds"),
                             (self.json("d.json", [{**row, "t": row["t"].strftime("%d/%m/%y %H")} for row in rows]),
                              "format: '%d/%m/%y %H'")):
            with self.subTest(inputs):
                batch = self.imported(schema.replace("timestamp: t", f"timestamp: {{column: t, {form}}}"), inputs,
                                      "--test-output", self.path("test.h5"))
                self.assertEqual(batch.dense.tolist(), [[1]])
        self.assert_refused("b.json:2: column t: 'noon' is not a time", schema, self.json("b.json", [
            rows[0] | {"t": "2024-01-01"}, rows[0] | {"t": "noon"}]), "--test-output", self.path("t.h5"))


class Inferred(Files):
    def test_schemas_import_what_they_were_inferred_from(self):
        r = np.random.default_rng(4)
        rows = [{"ad_id": int(r.integers(100, 999)), "price": float(r.random()), "clicks": int(r.integers(0, 900)),
                 "day": f"2024-01-{r.integers(10, 29)}T01:02:03", "label": int(r.integers(0, 2)), "empty": None,
                 "city name": ["Rome", "Oslo", None][r.integers(0, 3)],
                 "tags": [f"t{t}" for t in r.integers(0, 9, r.integers(0, 6))]} for _ in range(500)]
        csv = [{**row, "tags": "|".join(row["tags"])} for row in rows]
        header = ",".join(rows[0]) + "\n"
        text = header + "\n".join(",".join("" if v is None else str(v) for v in row.values()) for row in csv) + "\n"
        for path in (self.json("x.json", rows), self.parquet("x.parquet", rows), self.write("x.csv", text)):
            with self.subTest(path):
                code, said, error = self.run_infer(path)
                self.assertEqual((code, error), (0, ""))
                with open(self.path("new.yaml"), encoding="utf-8") as file:
                    schema = file.read()
                os.unlink(self.path("new.yaml"))
                tree = yaml.safe_load(schema)
                self.assertEqual((tree["label"], tree["timestamp"]), ("label", {"column": "day"}))
                self.assertEqual(tree["dense"], [{"column": "price", "fill": 0}, {"column": "clicks", "fill": 0, "log": True}])
                names = [s["column"] if isinstance(s, dict) else s for s in tree["sparse"]]
                self.assertEqual(names, ["ad_id", "city name", "tags"])
                self.assertIn("list", tree["sparse"][2])
                batch = self.imported(schema, path)
                self.assertEqual(self.lists(batch.sparse["tags"])[:50], self.numbered(rows)[:50])

    def test_schemas_of_columns_with_strange_names(self):
        for name in ("a\x7fb", "a\x85b", "a\u2028b", "a: b", "#", ""):
            with self.subTest(name):
                path = self.write("x\n.csv", f"y,{name}\n0,a\n1,b\n")
                self.assertEqual(self.run_infer(path)[0], 0)
                with open(self.path("new.yaml"), encoding="utf-8") as file:
                    schema = file.read()
                os.unlink(self.path("new.yaml"))
                self.assertEqual(len(self.imported(schema, path).sparse), 1 if name else 0)

    def test_schemas_take_a_weight_by_its_name_and_values(self):
        rows = [{"y": i % 2, "a": "x", "weight": [0.5, 2, None][i % 3], "sample_weight": -i} for i in range(6)]
        code, _, error = self.run_infer(self.json("x.json", rows))
        self.assertEqual((code, error), (0, ""))
        with open(self.path("new.yaml"), encoding="utf-8") as file:
            tree = yaml.safe_load(file)
        self.assertEqual(tree["weight"], {"column": "weight", "fill": 1})
        self.assertEqual(tree["dense"], [{"column": "sample_weight", "fill": 0}])

    def test_schemas_import_records_that_they_were_not_inferred_from(self):
        rows = [f"{i % 2},{i},{i % 7}.5,{'u' * 60}{i % 5}" for i in range(40000)]
        path = self.write("x.csv", "\n".join(["click,age,weight,user", *rows, "1,,,"]) + "\n")
        self.assertEqual(self.run_infer(path)[0], 0)
        with open(self.path("new.yaml"), encoding="utf-8") as file:
            schema = file.read()
        self.assertNotIn(f"first {len(rows) + 1} records", schema)
        batch = self.imported(schema, path)
        self.assertEqual((batch.dense[-1].tolist(), batch.weight[-1]), ([0], 1))

    def numbered(self, rows):
        numbers = {}
        return [[numbers.setdefault(tag, len(numbers) + 1) for tag in row["tags"]] for row in rows]

    def run_infer(self, path):
        import contextlib
        import io

        from dlrm.importing.command import main as command
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command([self.path("new.yaml"), path, "--infer"])
        return code, out.getvalue(), err.getvalue()

    def test_schemas_replace_no_file(self):
        self.write("new.yaml", "mine")
        code, _, error = self.run_infer(self.json("x.json", [{"y": 1}, {"y": 0}]))
        self.assertEqual(code, 2)
        self.assertIn("new.yaml: exists", error)

    def test_schemas_need_a_label(self):
        code, _, error = self.run_infer(self.json("x.json", [{"y": 1}, {"y": 3}]))
        self.assertEqual(code, 2)
        self.assertIn("no column has 0 and 1", error)


class Configs(Files):
    def test_fit_the_result(self):
        rows = records(100)
        schema = SCHEMA.replace("- user", "").replace("[user,", "[{column: user, table: t}, {column: page, name: p, "
                                                                "table: t},")
        self.imported(schema + "split: {fraction: 0.2}", self.json("x.json", rows), "--test-output",
                      self.path("test.h5"), "--write-config", self.path("c.yaml"))
        config = self.config()
        self.assertEqual(config["data"], {"train": self.path("out.h5"), "test": self.path("test.h5")})
        tables = {table["name"]: table for table in config["model"]["tables"]}
        self.assertEqual([feature["name"] for feature in tables["t"]["features"]], ["user", "p"])
        self.assertEqual(tables["page"]["rows"], 99)
        self.assertEqual(config["model"]["dense_features"], 1)

    def test_name_the_data_of_other_imports(self):
        rows = records(30)
        train, test, third = (self.json(f"{name}.json", rows[:count]) for name, count in
                              (("train", 10), ("test", 30), ("third", 20)))
        self.imported(SCHEMA, train, "--dictionary", self.path("d.json"))
        os.rename(self.path("out.h5"), self.path("train.h5"))
        of_train = ("--data", f"train={self.path('train.h5')}", "--write-config", self.path("c.yaml"))
        self.imported(SCHEMA, test, "--dictionary", self.path("d.json"), *of_train)
        config = self.config()
        self.assertEqual(config["data"], {"train": self.path("train.h5"), "test": self.path("out.h5")})
        tables = {table["name"]: table["rows"] for table in config["model"]["tables"]}
        self.assertEqual(tables["user"], Dataset(self.path("out.h5")).features["user"].rows)
        os.rename(self.path("out.h5"), self.path("test.h5"))
        self.imported(SCHEMA, third, "--dictionary", self.path("d.json"), *of_train, "--data",
                      f"test={self.path('test.h5')}")
        self.assertEqual(self.config()["data"], {"train": self.path("train.h5"), "valid": self.path("out.h5"),
                                                 "test": self.path("test.h5")})
        for expected, words in (("expected train=FILE.h5", ["--data", "h5"]),
                                ("each of train, valid and test is one file", of_train[:2] * 2),
                                ("each of train, valid and test is one file", [*of_train[:2], "--data", "test=t.h5", "--data", "valid=v.h5"]),
                                ("no such file", ["--data", "train=none.h5"])):
            self.assert_refused(expected, SCHEMA, third, *words, "--write-config", self.path("c.yaml"))
        self.assert_refused("is for --write-config", SCHEMA, third, *of_train[:2])

    def config(self):
        with open(self.path("c.yaml"), encoding="utf-8") as file:
            return yaml.safe_load(file)

    def test_need_sparse_columns(self):
        self.assert_refused("needs at least one sparse", "{label: click, dense: [price]}",
                            self.json("x.json", records(3)), "--write-config", self.path("c.yaml"))


if __name__ == "__main__":
    main()
