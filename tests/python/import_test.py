#!/usr/bin/env python3
"""`dlrm-data import`: what becomes of the columns of delimited text."""
import json

import numpy as np

from dataset_test import content
from import_fixture import ABSENT, Dataset, Importing, main

if not ABSENT:
    import pyarrow as pa
    import pyarrow.parquet as pq

LOG = """click,age,price,user,page,item,tags
1,20,3.5,ann,/a,7,red|blue
0,,0,bob,/b,3,
1,41, 2 ,ann,/a,7,red|red|green
0,30,1e2,,/c,0,green
"""
SCHEMA = """
label: click
dense: [{column: age, fill: 25}, {column: price, clip: [1, 50], log: true}]
sparse:
  - user
  - {column: page, hash: 50}
  - {column: item, integers: 10}
  - {column: tags, list: {separator: "|", cap: 2}}
"""


class Columns(Importing):
    def test_become_those_of_a_dataset(self):
        batch = self.imported(SCHEMA, self.write("log.csv", LOG))
        self.assertEqual(batch.label.tolist(), [1, 0, 1, 0])
        self.assertEqual(batch.label.dtype, np.uint8)
        np.testing.assert_array_equal(batch.dense[:, 0], [20, 25, 41, 30])
        np.testing.assert_allclose(batch.dense[:, 1], np.log1p([3.5, 1, 2, 50]), rtol=1e-6)
        self.assertEqual(batch.sparse["user"].ids.tolist(), [1, 2, 1, 3])
        self.assertEqual(batch.sparse["item"].ids.tolist(), [7, 3, 7, 0])
        self.assertEqual(self.lists(batch.sparse["tags"]), [[1, 2], [], [1, 1], [3]])
        features = Dataset(self.path("out.h5")).features
        self.assertEqual({name: info.rows for name, info in features.items()},
                         {"user": 4, "page": 50, "item": 10, "tags": 4})
        self.assertIn("4 rows", self.said)

    def test_hashes_as_the_package_does(self):
        from dlrm.dataset import Hashed
        words = ["abc", "", "ä", "x" * 63, "x" * 64, "y" * 65, "z" * 300, "abcd"]
        whole = [5, -7, 12, 1 << 40, 0, 1, 2, 3]
        text = "".join(f"1,{word},{number}\n" for word, number in zip(words, whole))
        batch = self.imported("{label: y, sparse: [{column: t, hash: 9999}, {column: n, hash: 99, values: integer}]}",
                              self.write("x.csv", "y,t,n\n" + text))
        self.assertEqual(batch.sparse["t"].ids.tolist(), Hashed(9999).encode(np.array(words)).tolist())
        self.assertEqual(batch.sparse["n"].ids.tolist(), Hashed(99).encode(np.array(whole)).tolist())

    def test_fill_and_log(self):
        schema = "{label: y, dense: [{column: n, log: true, fill: 3}], sparse: [{column: u, fill: b}]}"
        batch = self.imported(schema, self.write("x.csv", "y,n,u\n1,-2,a\n1,,\n0,7,b\n"))
        np.testing.assert_allclose(batch.dense[:, 0], np.log1p([0, 3, 7]), rtol=1e-6)
        self.assertEqual(batch.sparse["u"].ids.tolist(), [1, 2, 2])

    def test_labels_of_every_kind(self):
        path = self.write("x.csv", "y\n0.5\n3\n0\n")
        self.assertEqual(self.imported("{label: {column: y, above: 0.4}}", path).label.tolist(), [1, 1, 0])
        path = self.write("x.csv", "y\nbuy\nview\nclick\n")
        self.assertEqual(self.imported("{label: {column: y, positive: [buy, click]}}", path).label.tolist(), [1, 0, 1])
        path = self.write("x.csv", "y\n0.5\n1\n0.25\n")
        self.assertEqual(self.imported("{label: {column: y, soft: true}}", path).label.tolist(), [0.5, 1, 0.25])

    def test_lists_keep_the_last_items(self):
        batch = self.imported("{label: y, sparse: [{column: t, list: {separator: ' ', cap: 2, keep: last}}]}",
                              self.write("x.csv", "y,t\n1,a b c\n0, b  \n1,a\n1,\n"))
        self.assertEqual(self.lists(batch.sparse["t"]), [[1, 2], [1], [3], []])

    def test_may_be_used_twice(self):
        batch = self.imported("{label: y, dense: [n], sparse: [n, {column: n, name: m, integers: null}]}",
                              self.write("x.tsv", "n\ty\n5\t1\n2\t0\n"))
        self.assertEqual((batch.dense.tolist(), batch.sparse["n"].ids.tolist(), batch.sparse["m"].ids.tolist()),
                         ([[5], [2]], [1, 2], [5, 2]))

    def test_a_table_is_shared(self):
        batch = self.imported("{label: y, sparse: [{column: a, table: t}, {column: b, table: t}]}",
                              self.write("x.csv", "y,a,b\n1,p,q\n0,q,r\n"))
        self.assertEqual([batch.sparse[name].ids.tolist() for name in "ab"], [[1, 2], [2, 3]])


class Tasks(Importing):
    SCHEMA = ("{label: [click, {column: what, task: buy, positive: buy}, {column: stars, above: 3}, "
              "{column: stars, task: rating, soft: true}], sparse: [u]SPLIT}")

    def test_are_the_labels_of_a_sample_of_which_some_are_missing(self):
        batch = self.imported(self.SCHEMA.replace("SPLIT", "").replace("soft: true", "above: 4"), self.write(
            "x.csv", "click,what,stars,u\n1,buy,4,a\n,look,5,b\nNA,,,a\n0,buy,1,c\n"))
        nan = np.nan
        np.testing.assert_array_equal(batch.label, np.array([[1, 1, 1, 0], [nan, 0, 1, 1], [nan] * 4, [0, 1, 0, 0]],
                                                            np.float32))
        self.assertEqual(batch.sparse["u"].ids.tolist(), [1, 2, 1, 3])
        self.assertEqual(self.warnings, [])

    def test_are_the_same_in_every_format(self):
        rows = [{"click": 1, "what": "buy"}, {"click": None, "what": "look"}, {"what": None}, {"click": 0}]
        expected = np.array([[1, 1], [np.nan, 0], [np.nan, np.nan], [0, np.nan]], np.float32)
        schema = "{label: [click, {column: what, positive: buy}]}"
        table = pa.table({name: [row.get(name) for row in rows] for name in ("click", "what")})
        pq.write_table(table, self.path("x.parquet"))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        for path in (self.path("x.parquet"), self.write("x.json", text)):
            np.testing.assert_array_equal(self.imported(schema, path).label, expected)

    def test_follow_their_samples_through_chunks_and_splits(self):
        text = "y,z,n\n" + "".join(f"{i % 7 / 8},{'' if i % 5 == 0 else i % 2},{i}\n" for i in range(200000))
        schema = "{label: [{column: y, soft: true}, z], dense: [n], split: {fraction: 0.3SPLIT}}"
        for split in ("", ", hash: n"):
            first = self.imported(schema.replace("SPLIT", split), self.write("x.csv", text), "--test-output",
                                  self.path("test.h5"))
            last = Dataset(self.path("test.h5"))[:]
            for batch in (first, last):
                n = batch.dense[:, 0]
                np.testing.assert_array_equal(batch.label, np.stack(
                    [n % 7 / 8, np.where(n % 5 == 0, np.nan, n % 2)], 1).astype(np.float32))
            self.assertEqual(len(first.label) + len(last.label), 200000)

    def test_are_as_many_zeros_in_records_without_labels(self):
        batch = self.imported("{label: [a, b], sparse: [u]}", self.write("x.csv", "u\nx\ny\n"), "--unlabelled")
        np.testing.assert_array_equal(batch.label, np.zeros((2, 2), np.float32))

    def test_that_cannot_be_are_refused_or_skipped(self):
        path = self.write("x.csv", "a,b\n1,0.5\n0,2\n,1\n")
        schema = "{label: [a, {column: b, soft: true}]}"
        self.assert_refused("x.csv:3: column b: '2' is not from 0 to 1", schema, path)
        np.testing.assert_array_equal(self.imported(schema, path, "--skip-malformed").label,
                                      np.array([[1, 0.5], [np.nan, 1]], np.float32))
        for expected, labels in (("label: is a list of 1; a list has 2 to 64", "[a]"),
                                 ("label: is a list of 0", "[]"),
                                 ("label[1]: the name a is taken; give another `task`", "[a, {column: a, above: 0}]"),
                                 ("is not a name of letters, digits, _ - . (not first), at most 200; give a `task`",
                                  "[{column: a, task: ' '}, b]"),
                                 ("label[1].above: x is not", "[a, {column: b, above: x}]"),
                                 ("label.task: is unknown", "{column: a, task: b}")):
            self.assert_refused(expected, f"{{label: {labels}}}", path)

    def test_that_are_all_alike_get_a_warning(self):
        self.imported("{label: [a, b, c], sparse: [u]}", self.write("x.csv", "a,b,c,u\n1,,0,p\n0,,0,q\n,,,p\n"))
        self.assertEqual([line.split(": is")[0] for line in self.warnings],
                         ["warning: column b: every label is missing", "warning: column c: every label is 0"])


class Weights(Importing):
    def test_become_those_of_a_dataset(self):
        text = "y,w\n1,0.5\n0,\n1,3\n0,0\n"
        batch = self.imported("{label: y, weight: {column: w, fill: 1}}", self.write("x.csv", text))
        self.assertEqual((batch.weight.tolist(), batch.weight.dtype), ([0.5, 1, 3, 0], np.float32))
        self.assertIsNone(self.imported("{label: y}", self.path("x.csv")).weight)

    def test_follow_their_samples_through_chunks_and_splits(self):
        text = "y,n\n" + "".join(f"{i % 2},{i}\n" for i in range(300000))
        schema = "{label: y, dense: [n], weight: n, split: {fraction: 0.3SPLIT}}"
        for split in ("", ", hash: n"):
            first = self.imported(schema.replace("SPLIT", split), self.write("x.csv", text), "--test-output",
                                  self.path("test.h5"))
            last = Dataset(self.path("test.h5"))[:]
            for batch in (first, last):
                np.testing.assert_array_equal(batch.weight, batch.dense[:, 0])
            self.assertEqual(len(first.weight) + len(last.weight), 300000)

    def test_that_cannot_be_are_refused_or_skipped(self):
        for value, expected in (("-1", "'-1' is not a finite number of at least 0"),
                                ("inf", "'inf' is not a finite number of at least 0"),
                                ("1e39", "'1e39' is not a finite number of at least 0"),
                                ("x", "'x' is not a number"), ("", "'' is missing: give a `fill`")):
            path = self.write("x.csv", f"y,w\n1,1\n0,{value}\n1,2\n")
            self.assert_refused(f"x.csv:3: column w: {expected}", "{label: y, weight: w}", path)
            batch = self.imported("{label: y, weight: w}", path, "--skip-malformed")
            self.assertEqual(batch.weight.tolist(), [1, 2])


class Text(Importing):
    def test_without_a_header_and_with_quotes(self):
        schema = "{format: {type: csv, delimiter: ';', header: false, columns: [y, a]}, label: y, sparse: [a]}"
        batch = self.imported(schema, self.write("x.data", '1;"p;q"\r\n\r\n0;p\r\n1;"p;q"'))
        self.assertEqual((batch.label.tolist(), batch.sparse["a"].ids.tolist()), ([1, 0, 1], [1, 2, 1]))

    def test_of_many_chunks_is_that_of_one(self):
        r = np.random.default_rng(3)
        users, words = r.integers(0, 5000, 300000), r.integers(0, 4, 300000)
        rows = [f"{u % 2},u{u},{' '.join('xyz'[:w])}" for u, w in zip(users, words)]
        path = self.write("x.csv", "y,u,w\n" + "\n".join(rows) + "\n")
        batch = self.imported("{label: y, dense: [y], sparse: [u, {column: w, list: {separator: ' '}}]}", path)
        _, first, number = np.unique(users, return_index=True, return_inverse=True)
        np.testing.assert_array_equal(batch.sparse["u"].ids, np.argsort(np.argsort(first))[number] + 1)
        np.testing.assert_array_equal(np.diff(batch.sparse["w"].offsets), words)
        np.testing.assert_array_equal(batch.dense[:, 0], users % 2)
        once = content(self.path("out.h5"))
        self.imported("{label: y, dense: [y], sparse: [u, {column: w, list: {separator: ' '}}]}", path,
                      "--threads", "1")
        self.assertTrue(once == content(self.path("out.h5")))

    def test_a_byte_order_mark_and_no_last_line_end(self):
        batch = self.imported("{label: y}", self.write("x.csv", "\ufeffy,z\n1,0\n0,0"))
        self.assertEqual(batch.label.tolist(), [1, 0])


class Splits(Importing):
    def split(self, split, text, *more):
        schema = f"{{label: y, dense: [n], sparse: [u, {{column: t, list: {{separator: ' '}}}}], {split}}}"
        first = self.imported(schema, self.write("x.csv", text), "--test-output", self.path("test.h5"), *more)
        return first, Dataset(self.path("test.h5"))[:]

    def text(self, count):
        return "y,n,u,t\n" + "".join(f"{i % 2},{i},u{i % 7},{' '.join('abc'[:i % 4])}\n" for i in range(count))

    def test_by_fraction_takes_the_last(self):
        first, last = self.split("split: {fraction: 0.25}", self.text(1002))
        np.testing.assert_array_equal(first.dense[:, 0], np.arange(751))
        np.testing.assert_array_equal(last.dense[:, 0], np.arange(751, 1002))
        for batch, begin in ((first, 0), (last, 751)):
            ids = np.arange(begin, begin + len(batch.label)) % 7 + 1
            np.testing.assert_array_equal(batch.sparse["u"].ids, ids)
            self.assertEqual(self.lists(batch.sparse["t"])[:9],
                             [list(range(1, 1 + i % 4)) for i in range(begin, begin + 9)])

    def test_by_the_hash_of_a_column_keeps_its_values_together(self):
        text = "y,n,u,t\n" + "".join(f"{i % 2},{i},u{i % 1000},\n" for i in range(5000))
        first, last = self.split("split: {fraction: 0.3, hash: u}", text)
        self.assertEqual(set(first.sparse["u"].ids) & set(last.sparse["u"].ids), set())
        self.assertEqual(len(first.label) + len(last.label), 5000)
        self.assertTrue(1250 < len(last.label) < 1750, len(last.label))

    def test_that_leave_nothing_are_refused(self):
        self.assert_refused("leaves nothing to test with", "{label: y, split: {fraction: 0.1}}",
                            self.write("x.csv", "y\n1\n0\n"), "--test-output", self.path("t.h5"))


class Refused(Importing):
    def test_values_with_file_line_column_and_value(self):
        path = self.write("log.csv", LOG + "1,abc,1,x,/d,1,\n")
        self.assert_refused("log.csv:6: column age: 'abc' is not a number", SCHEMA, path)
        cases = (("2,1,1,x,/d,1,", "log.csv:6: column click: '2' is neither 0 nor 1"),
                 (",1,1,x,/d,1,", "log.csv:6: column click: '' is missing"),
                 ("1,1,,x,/d,1,", "log.csv:6: column price: is missing, and the schema has no `fill` for it"),
                 ("1,1,1,x,/d,10,", "log.csv:6: column item: 10 is not from 0 to 9"),
                 ("1,1,1,x,/d,1.5,", "log.csv:6: column item: '1.5' is not a whole number"),
                 ("1,1e39,1,x,/d,1,", "log.csv:6: column age: '1e39' is too large"),
                 ("1,inf,1,x,/d,1,", "log.csv:6: column age: 'inf' is not finite"),
                 ("1,1,1,x,/d,1", "log.csv:6: 6 fields; expected 7"),
                 ('1,1,1,x,"/d,1,', "is not closed on the line"),
                 (b"1,1,1,\xff,/d,1,", "log.csv:6: '1,1,1,\ufffd,/d,1,' is not UTF-8"))
        for line, expected in cases:
            with self.subTest(line):
                line = line if isinstance(line, bytes) else line.encode()
                path = self.write("log.csv", LOG.encode() + line + b"\n0,1,1,x,/d,1,\n")
                self.assert_refused(expected, SCHEMA, path)

    def test_values_far_down_and_line_ends_in_quotes(self):
        lines = ["y,a"] + [f"1,{n}" for n in range(600000)]
        lines[400001] = "1,x"
        self.assert_refused("x.csv:400002: column a: 'x' is not a number", "{label: y, dense: [a]}",
                            self.write("x.csv", "\n".join(lines)))
        self.assert_refused("x.csv:3: '1,\"b' has a quote that is not closed", "{label: y, sparse: [a]}",
                            self.write("x.csv", 'y,a\n1,a\n1,"b\n0,c"\n1,d\n'))

    def test_values_are_skipped_and_counted(self):
        path = self.write("log.csv", LOG + "1,abc,1,new,/d,1,\n1,1\n\n0,1,1,x,/d,99,\n0,7,1,x,/d,1,red\n")
        batch = self.imported(SCHEMA, path, "--skip-malformed")
        self.assertIn("malformed records skipped: 3", self.said)
        self.assertEqual(batch.dense[:, 0].tolist(), [20, 25, 41, 30, 7])
        self.assertEqual(batch.sparse["user"].ids.tolist(), [1, 2, 1, 3, 4])

    def test_schemas_and_files(self):
        good = self.write("x.csv", "y,a\n1,2\n")
        for schema, expected in (
                ("label: [", "is not YAML"), ("{dense: [a]}", "label: is missing"), ("{label: z}", "no column z"),
                ("{label: y, dence: []}", "dence: is unknown"), ("{label: y, weight: [a]}", "weight: is not a mapping"),
                ("{label: y, weight: z}", "no column z"), ("{label: y, weight: {fill: 1}}", "names no `column`"),
                ("{label: y, weight: {column: a, fill: -1}}", "weight.fill: -1 is less than 0"),
                ("{label: y, sparse: [{column: a, hash: 0}]}", "sparse[0].hash: 0 is not a whole number from 1"),
                ("{label: y, sparse: [a, a]}", "sparse[1]: the name a is taken"),
                ("{label: y, dense: [{column: a, clip: [2, 1]}]}", "dense[0].clip: the first number is the larger"),
                ("{label: y, dense: [{column: a, standardise: true}, {column: a, log: true, standardise: true}]}",
                 "dense[0]: a is standardised twice"),
                ("{label: y, split: {fraction: 2}}", "split.fraction: 2.0 is not between 0 and 1"),
                ("{label: y, split: {fraction: 0.5}}", "--test-output is for the test set")):
            with self.subTest(schema):
                self.assert_refused(expected, schema, good)
        for name, content, expected in (("x.bin", "", "the format cannot be told"), ("x.csv", "", "is empty"),
                                        ("x.csv", "y\n", "no record is well-formed"),
                                        ("x.csv", "y,y\n1,1\n", "names 'y' twice")):
            self.assert_refused(expected, "{label: y}", self.write(name, content))
        self.assert_refused("no such file", "{label: y}", self.path("none.csv"))
        self.assert_refused("is named twice", "{label: y, split: {fraction: 0.5}}", good, "--test-output",
                            self.path("out.h5"))


if __name__ == "__main__":
    main()
