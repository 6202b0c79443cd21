#!/usr/bin/env python3
"""`dlrm-data import`: a value has one id in every format and type, a schema means what it says, likely mistakes are
named, and files that are written have one writer."""
import decimal
import json
import os
import subprocess
import sys
from unittest import mock

import numpy as np

from import_fixture import Dataset, Importing, main, pyarrow

CODE = 4006381333931  # an EAN-13, which a missing value elsewhere in the column makes a float


class OneId(Importing):
    def parquet(self, name, values):
        from pyarrow.parquet import write_table
        write_table(pyarrow.table({"y": [i % 2 for i in range(len(values))], "u": values}), self.path(name))
        return self.path(name)

    def texts(self, name, values):
        rows = "".join(f"{i % 2},{value}\n" for i, value in enumerate(values))
        return self.write(name, "y,u\n" + rows)

    def json(self, name, values):
        return self.write(name, "".join(f'{{"y": {i % 2}, "u": {value}}}\n' for i, value in enumerate(values)))

    def spellings(self):
        """Files of CODE, 12 and 13."""
        numbers = [CODE, 12, 13]
        floats = [float(number) for number in numbers]
        decimals = [decimal.Decimal(number) for number in numbers]
        yield self.texts("integers.csv", numbers)
        yield self.texts("floats.csv", floats)
        yield self.texts("exponents.csv", [f"{number:.15e}" for number in numbers])
        yield self.texts("decimals.csv", [f"{number}.000000000" for number in numbers])
        yield self.json("integers.json", numbers)
        yield self.json("floats.json", floats)
        yield self.json("texts.json", [f'"{number}"' for number in numbers])
        yield self.json("mixed.json", [f'"{CODE}.0"', "12", "13.0"])
        yield self.parquet("int64.parquet", pyarrow.array(numbers))
        yield self.parquet("uint64.parquet", pyarrow.array(numbers, pyarrow.uint64()))
        yield self.parquet("double.parquet", pyarrow.array(floats))
        yield self.parquet("decimal.parquet", pyarrow.array(decimals, pyarrow.decimal128(38, 9)))
        yield self.parquet("text.parquet", pyarrow.array([str(number) for number in floats]))
        yield self.parquet("categories.parquet", pyarrow.array(floats).dictionary_encode())
        if hasattr(pyarrow, "string_view"):
            yield self.parquet("view.parquet", pyarrow.array([str(n) for n in numbers]).cast(pyarrow.string_view()))

    def test_whatever_the_format_and_the_type(self):
        kept = ["--dictionary", self.path("d.json")]
        first = self.texts("first.csv", [CODE, 12, 13])
        for encoding in ("", ", hash: 100000", ", values: integer", ", values: integer, hash: 99999"):
            schema = f"{{label: y, sparse: [{{column: u{encoding}}}]}}"
            if os.path.exists(self.path("d.json")):
                os.unlink(self.path("d.json"))
            expected = self.imported(schema, first, *kept).sparse["u"].ids.tolist()
            for path in self.spellings():
                with self.subTest(encoding + path):
                    self.assertEqual(self.imported(schema, path, *kept).sparse["u"].ids.tolist(), expected)

    def test_in_a_split_by_hash(self):
        schema = "{label: y, sparse: [u], split: {fraction: 0.5, hash: u}}"
        numbers = [CODE + i for i in range(100)]
        found = []
        for path in (self.texts("a.csv", numbers), self.parquet("a.parquet", pyarrow.array(map(float, numbers)))):
            self.imported(schema, path, "--test-output", self.path("t.h5"))
            found.append(len(Dataset(self.path("t.h5"))))
        self.assertEqual(*found)

    def test_in_lists(self):
        schema = "{label: y, sparse: [{column: u, list: {separator: '|'}}]}"
        paths = (self.texts("a.csv", ["1|2.0|30000000000", "2"]), self.json("a.json", ["[1, 2.0, 3e10]", "[2]"]),
                 self.parquet("a.parquet", pyarrow.array([[1.0, 2.0, 3e10], [2.0]])))
        for path in paths:
            with self.subTest(path):
                self.assertEqual(self.lists(self.imported(schema, path).sparse["u"]), [[1, 2, 3], [2]])

    def test_of_fractions_and_large_integers(self):
        schema = "{label: y, sparse: [u]}"
        paths = (self.texts("a.csv", ["0.5", "1e-07", 2**63 + 5]),
                 self.json("b.json", [0.5, 1e-07, 2**63 + 5]),
                 self.parquet("c.parquet", pyarrow.array([0.5, 1e-07])),
                 self.parquet("d.parquet", pyarrow.array([decimal.Decimal("0.5"), decimal.Decimal("0.0000001")],
                                                         pyarrow.decimal128(38, 9))),
                 self.parquet("e.parquet", pyarrow.array([2**63 + 5], pyarrow.uint64())))
        self.assertEqual(self.imported(schema, list(paths)).sparse["u"].ids.tolist(), [1, 2, 3] * 2 + [1, 2] * 2 + [3])

    def test_but_texts_that_are_no_numbers_stay_apart(self):
        path = self.texts("a.csv", ["12", "012", "+12", "1.1", "1.10", "12e5", "1200000", "1.2.0"])
        self.assertEqual(self.imported("{label: y, sparse: [u]}", path).sparse["u"].ids.tolist(), list(range(1, 9)))

    def test_but_hexadecimal_digits_are_no_decimal_numbers(self):
        path = self.texts("a.csv", ["1e5", "100000", "1E5", "0100000"])
        batch = self.imported("{label: y, sparse: [{column: u, values: hex}]}", path)
        self.assertEqual(batch.sparse["u"].ids.tolist(), [1, 2, 1, 2])

    def test_of_a_dictionary_with_another_spelling(self):
        tree = {"format": "dlrm-import", "version": 1, "scales": {}, "dictionaries": {"u": ["a", "12.0", "7", "7.0", 5]}}
        kept = ["--dictionary", self.write("d.json", json.dumps(tree)), "--frozen-dictionary"]
        path = self.texts("a.csv", ["a", "12", "12.0", "7", "7.0", "5"])
        self.assertEqual(self.imported("{label: y, sparse: [u]}", path, *kept).sparse["u"].ids.tolist(),
                         [1, 2, 2, 3, 3, 5])
        self.assert_refused("d.json: the dictionary of u has other values than integers",
                            "{label: y, sparse: [{column: u, values: integer}]}", path, *kept)


class Schemas(Importing):
    def labels(self, positive, value):
        path = self.write("x.csv", f"y,u\n{value},a\nother,b\n")
        schema = f"label: {{column: y, positive: {positive}}}\nsparse: [u]\n"
        return self.imported(schema, path).label.tolist()

    def test_mean_the_texts_that_they_have(self):
        for word in ("yes", "True", "on", "Off", "012", "12:30", "0x10", "2024-01-31", "1_000", "1e6"):
            with self.subTest(word):
                self.assertEqual(self.labels(word, word), [1, 0])
                self.assertEqual(self.labels(f"'{word}'", word), [1, 0])
        self.assertEqual(self.labels("1", "1.0"), [1, 0])

    def test_name_columns_that_look_like_other_things(self):
        path = self.write("x.csv", "y,no,012\n1,a,3\n0,b,4\n")
        batch = self.imported("label: y\ndense: [012]\nsparse: [no]\n", path)
        self.assertEqual((batch.dense[:, 0].tolist(), batch.sparse["no"].ids.tolist()), ([3, 4], [1, 2]))

    def test_take_numbers_with_an_exponent(self):
        path = self.write("x.csv", "y,u\n1,a\n0,b\n")
        self.imported("label: y\nsparse: [{column: u, hash: 1e6}]\n", path)
        self.assertEqual(Dataset(self.path("out.h5")).features["u"].rows, 1000000)

    def test_that_cannot_be_meant_are_refused(self):
        path = self.write("x.csv", "y,u,t\n1,a,20240131\n0,b,20240201\n")
        end = "sparse: [u]\ntimestamp: {column: t%s}\nsplit: {time: %s}\n"
        for expected, schema in (("there twice", "label: y\nlabel: u\n"),
                                 ("%Z", "label: y\n" + end % (", format: '%Y %Z'", "2024-01-31")),
                                 ("%V is not read", "label: y\n" + end % (", format: '%Y-%V-%u'", "2024-01-31")),
                                 ("not a time", "label: y\n" + end % ("", "2024-02-30")),
                                 ("neither true nor false", "label: {column: y, soft: 'yes'}\n"),
                                 ("whole number", "label: y\nsparse: [{column: u, hash: 1.5}]\n")):
            with self.subTest(expected):
                self.assert_refused(expected, schema, path, "--test-output", self.path("t.h5"))

    def test_have_a_pattern_for_integers_too(self):
        schema = ("label: y\nsparse: [u]\ntimestamp: {column: t, format: '%Y%m%d'}\nsplit: {time: 2024-02-01}\n")
        path = self.write("x.csv", "y,u,t\n1,a,20240131\n0,b,20240201\n")
        from pyarrow.parquet import write_table
        write_table(pyarrow.table({"y": [1, 0], "u": ["a", "b"], "t": [20240131, 20240201]}), self.path("x.parquet"))
        for name in (path, self.path("x.parquet")):
            self.assertEqual(len(self.imported(schema, name, "--test-output", self.path("t.h5")).label), 1)
        self.assert_refused("is not a time", schema, self.write("x.csv", "y,u,t\n1,a,20240230\n0,b,20240301\n"),
                            "--test-output", self.path("t.h5"))


class Moments(Importing):
    def test_are_those_of_large_values_with_small_deviations(self):
        for values in (1.7e9 + np.arange(6000) % 60, 1.7e12 + np.arange(6000) % 60000, np.full(6000, 16777217),
                       np.full(6000, 0.1)):
            path = self.write("x.csv", "y,t\n" + "".join(f"{i % 2},{v!r}\n" for i, v in enumerate(values.tolist())))
            dense = self.imported("{label: y, dense: [{column: t, standardise: true}]}", path).dense[:, 0]
            expected = values - values[0]
            deviation = expected.std() or 1
            np.testing.assert_allclose(dense, (expected - expected.mean()) / deviation, atol=1e-5)


class Warnings(Importing):
    def test_name_what_is_likely_a_mistake(self):
        schema = "{label: y, sparse: [u]}"
        kept = ["--dictionary", self.path("d.json")]
        self.imported(schema, self.write("a.csv", "y,u\n1,a\n0,b\n1,c\n"), *kept)
        self.assertEqual(self.warnings, [])
        self.imported(schema, self.write("b.csv", "y,u\n1,a\n0,x\n1,z\n"), *kept, "--frozen-dictionary")
        self.assertIn("2 of 3 values are not in the dictionary", " ".join(self.warnings))
        self.imported(schema, self.write("c.csv", "y,u\n1,a\n1,a\n"))
        self.assertIn("every label is 1", self.warnings[0])
        self.assertIn("column u: every value", self.warnings[1])


class Inputs(Importing):
    def infer(self, path):
        os.path.exists(self.path("schema.yaml")) and os.unlink(self.path("schema.yaml"))
        self.run_schema = self.path("inferred.yaml")
        os.path.exists(self.run_schema) and os.unlink(self.run_schema)
        from dlrm.importing.command import main as command
        with mock.patch("builtins.print"):
            self.assertEqual(command([self.run_schema, path, "--infer"]), 0)
        with open(self.run_schema, encoding="utf-8") as file:
            return file.read()

    def test_of_any_delimiter_are_inferred_and_imported(self):
        for delimiter in ";|\t,":
            path = self.write("x.csv", "\n".join(delimiter.join(row) for row in
                                                 (("click", "age", "user"), ("1", "3", "a"), ("0", "", "b"))) + "\n")
            batch = self.imported(self.infer(path), path)
            self.assertEqual((batch.label.tolist(), batch.dense[:, 0].tolist()), ([1, 0], [3, 0]))

    def test_with_types_that_no_schema_takes_are_inferred_without_them(self):
        from pyarrow.parquet import write_table
        columns = {"click": [1, 0], "user": ["a", "b"], "age": [1.5, float("nan")], "s": [{"os": "x"}, None],
                   "l": [[["a"]], None], "m": pyarrow.array([[("a", 1)], None], pyarrow.map_("string", "int64"))}
        write_table(pyarrow.table(columns), self.path("x.parquet"))
        text = self.infer(self.path("x.parquet"))
        self.assertEqual(text.count("# left out:"), 3)
        self.imported(text, self.path("x.parquet"))

    def test_compressed_by_what_is_not_read_are_named(self):
        import bz2
        import lzma
        import zipfile
        with zipfile.ZipFile(self.path("x.csv.zip"), "w") as file:
            file.writestr("x.csv", "y\n1\n")
        self.write("x.csv.bz2", bz2.compress(b"y\n1\n"))
        self.write("x.csv.xz", lzma.compress(b"y\n1\n"))
        for ending, name in (("zip", "zip"), ("bz2", "bzip2"), ("xz", "xz")):
            self.assert_refused(f"is compressed as {name}", "{label: y}", self.path(f"x.csv.{ending}"))

    def test_without_a_label_become_data_to_predict(self):
        path = self.write("x.csv", "u\na\nb\n")
        batch = self.imported("{label: y, sparse: [u]}", path, "--unlabelled")
        self.assertEqual((batch.label.tolist(), batch.sparse["u"].ids.tolist(), self.warnings), ([0, 0], [1, 2], []))

    def test_that_change_while_they_are_read_are_refused(self):
        path = self.write("x.csv", "y,n\n1,2\n0,3\n")
        from dlrm.importing.scales import Moments as Real
        scales = Real.scales

        def changing(moments):
            self.write("x.csv", "y,n\n1,2\n0,3\n1,5\n")
            return scales(moments)

        with mock.patch.object(Real, "scales", changing):
            self.assert_refused("changes the file", "{label: y, dense: [{column: n, standardise: true}]}", path)


class Endings(Importing):
    def command(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-m", "dlrm.importing", *arguments], capture_output=True, text=True,
                              cwd=self.folder, env={**os.environ, **environment}, check=False)

    def test_say_every_failure_in_one_line(self):
        path = self.write("x.csv", "y,u\n1,a\n0,b\n")
        schema = self.write("s.yaml", "{label: y, sparse: [u]}")
        done = self.command(schema, path, "--output", "o.h5", "--write-config", "/nowhere/c.yaml")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertEqual(self.datasets(), {})
        for error, code in ((KeyError("x"), 3), (MemoryError(), 3), (OSError(28, "No space left"), 3)):
            with mock.patch("dlrm.importing.command.make_encodings", side_effect=error):
                found, _, said = self.run_import("{label: y, sparse: [u]}", path)
            self.assertEqual((found, said.count("\n")), (code, 1), said)

    def test_of_a_disk_that_is_full_leave_nothing_and_code_3(self):
        path = self.write("x.csv", "y,u\n1,a\n0,b\n")
        for function in ("dlrm.dataset.columns.StoredColumn.write", "dlrm.dataset.files.os.fsync"):
            before = sorted(os.listdir(self.folder))
            with mock.patch(function, side_effect=OSError(28, "No space left on device")):
                code, _, said = self.run_import("{label: y, sparse: [u]}", path, "--dictionary", self.path("d.json"))
            self.assertEqual(code, 3)
            self.assertIn("No space left", said)
            self.assertEqual(sorted(set(os.listdir(self.folder)) - {"schema.yaml"}), sorted(set(before) - {"schema.yaml"}))

    def test_of_disks_that_are_too_small_say_so_whatever_lacks_room(self):
        enter = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-c",
                 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"', "sh"]
        disk = self.path("disk")
        os.mkdir(disk)
        if subprocess.run([*enter, "64k", disk, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no file system can be mounted")
        features = [f"f{i}" for i in range(20)]
        self.write("s.yaml", f"{{label: y, sparse: [{', '.join(features)}]}}")
        self.write("x.csv", f"y,{','.join(features)}\n" + "".join(f"{i % 2},{','.join(['a'] * 20)}\n" for i in range(40)))
        codes = set()
        for pages in range(0, 80, 4):
            done = subprocess.run([*enter, str(4096 * (1 + pages)), disk, sys.executable, "-m", "dlrm.importing", self.path("s.yaml"),
                                   self.path("x.csv"), "--output", os.path.join(disk, "out.h5")], capture_output=True, text=True,
                                  check=False)
            codes.add(done.returncode)
            if done.returncode != 0:
                self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), (pages, done.stderr))
                self.assertIn(os.path.join(disk, "out.h5"), done.stderr)
        self.assertEqual(codes, {0, 3})

    def test_leave_a_dataset_only_with_its_dictionary(self):
        path = self.write("x.csv", "y,u\n1,a\n0,b\n")
        with mock.patch("dlrm.importing.command.save_state", side_effect=OSError(28, "No space left on device")):
            self.assertEqual(self.run_import("{label: y, sparse: [u]}", path, "--dictionary", self.path("d.json"))[0], 3)
        self.assertEqual(self.datasets(), {})


class TwoWriters(Importing):
    def test_of_a_file_are_one_and_an_error(self):
        from dlrm.dataset.files import Lock
        path = self.write("x.csv", "y,u\n1,a\n0,b\n")
        options = ["--dictionary", self.path("d.json")]
        for name in ("d.json", "out.h5"):
            lock = Lock(self.path(name))
            self.assert_refused(f"process {os.getpid()}", "{label: y, sparse: [u]}", path, *options)
            lock.release()
        self.imported("{label: y, sparse: [u]}", path, *options)
        self.assertEqual(sorted(os.listdir(self.folder)), ["d.json", "out.h5", "schema.yaml", "x.csv"])

    def test_do_not_follow_or_remove_what_is_there(self):
        path = self.write("x.csv", "y,u\n1,a\n0,b\n")
        self.write("precious", "precious")
        for name in ("d.json.partial", "out.h5.partial"):
            os.symlink(self.path("precious"), self.path(name))
        self.imported("{label: y, sparse: [u]}", path, "--dictionary", self.path("d.json"))
        for name in ("d.json.partial", "out.h5.partial", "precious"):
            with open(self.path(name), encoding="utf-8") as file:
                self.assertEqual(file.read(), "precious")

    def test_removes_what_a_killed_import_left(self):
        path = self.write("x.csv", "y,u\n1,a\n0,b\n")
        kept = [self.write(name, "") for name in ("out.h5.x123456789abcdef.partial", "out.h5.0123456789abcdef.partial.h5")]
        left = [self.write(name, "") for name in ("out.h5.0123456789abcdef.partial", "d.json.0123456789abcdef.partial")]
        self.imported("{label: y, sparse: [u]}", path, "--dictionary", self.path("d.json"))
        self.assertTrue(all(map(os.path.exists, kept)))
        self.assertFalse(any(map(os.path.exists, left)))


if __name__ == "__main__":
    main()
