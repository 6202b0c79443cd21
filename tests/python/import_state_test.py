#!/usr/bin/env python3
"""`dlrm-data import`: dictionaries that are kept, extended and frozen, thresholds, and columns that are
standardised."""
import json
import os

import numpy as np

from import_fixture import Dataset, Importing, main


class Dictionaries(Importing):
    def ids(self, values, *options, schema="{label: y, sparse: [u]}", columns="u"):
        rows = "".join(f"1,{value}\n" for value in values)
        batch = self.imported(schema, self.write("x.csv", f"y,{columns}\n{rows}"), *options)
        return [bags.ids.tolist() for bags in batch.sparse.values()]

    def rows(self):
        return [info.rows for info in Dataset(self.path("out.h5")).features.values()]

    def test_are_extended_and_frozen(self):
        kept = ["--dictionary", self.path("d.json")]
        self.assertEqual(self.ids(["a", "b", "a"], *kept), [[1, 2, 1]])
        self.assertEqual(self.ids(["c", "b"], *kept), [[3, 2]])
        with open(self.path("d.json"), "rb") as file:
            before = file.read()
        self.assertEqual(self.ids(["d", "c", "a"], *kept, "--frozen-dictionary"), [[0, 3, 1]])
        self.assertEqual(self.rows(), [4])
        with open(self.path("d.json"), "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(json.loads(before)["dictionaries"], {"u": ["a", "b", "c"]})

    def test_of_other_features_are_kept(self):
        kept = ["--dictionary", self.path("d.json")]
        self.ids(["a"], *kept)
        self.ids(["b"], *kept, schema="{label: y, sparse: [v]}", columns="v")
        with open(self.path("d.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["dictionaries"], {"u": ["a"], "v": ["b"]})

    def test_have_a_threshold_for_new_values(self):
        schema = "{label: y, sparse: [{column: u, dictionary: {threshold: 2}}]}"
        kept = ["--dictionary", self.path("d.json")]
        self.assertEqual(self.ids("abbcac", *kept, schema=schema), [[1, 2, 2, 3, 1, 3]])
        self.assertEqual(self.ids("xaxyb", *kept, schema=schema), [[4, 1, 4, 0, 2]])
        self.assertEqual(self.rows(), [5])
        self.assertEqual(self.ids("qbbq", schema=schema), [[1, 2, 2, 1]])
        self.assertEqual(self.ids("qbb", schema=schema), [[0, 1, 1]])

    def test_are_final_in_both_files_of_a_split(self):
        schema = "{label: y, sparse: [{column: u, dictionary: {threshold: 2}}], split: {fraction: 0.5}}"
        self.assertEqual(self.ids("abcbcd", "--test-output", self.path("t.h5"), schema=schema), [[0, 1, 2]])
        self.assertEqual(Dataset(self.path("t.h5"))[:].sparse["u"].ids.tolist(), [1, 2, 0])

    def test_of_integers_and_of_hexadecimal_digits(self):
        schema = "{label: y, sparse: [{column: u, values: integer}, {column: v, values: hex}]}"
        kept = ["--dictionary", self.path("d.json")]
        first = self.ids(["5,ff", "05,0FF", "-7,"], *kept, schema=schema, columns="u,v")
        self.assertEqual(first, [[1, 1, 2], [1, 1, 2]])
        frozen = self.ids(["-7,", "6,ff"], *kept, "--frozen-dictionary", schema=schema, columns="u,v")
        self.assertEqual(frozen, [[2, 0], [2, 1]])

    def test_that_cannot_be_used(self):
        path = self.write("x.csv", "y,u\n1,a\n")
        schema = "{label: y, sparse: [u]}"
        self.assert_refused("--frozen-dictionary needs --dictionary", schema, path, "--frozen-dictionary")
        for text in ("", "[]", "{}", '{"format": "dlrm-import", "version": 1, "dictionaries": {"u": ["a", "a"]}}'):
            with self.subTest(text):
                self.assert_refused(self.path("d.json"), schema, path, "--dictionary", self.write("d.json", text))
        other = '{"format": "dlrm-import", "version": 1, "dictionaries": {"v": ["a"]}, "scales": {}}'
        self.assert_refused("has no dictionary of u", schema, path, "--dictionary", self.write("d.json", other),
                            "--frozen-dictionary")
        for scale in ("[NaN, 1]", "[0, Infinity]", "[0, 0]", "[0, -1]"):
            edited = other.replace('"scales": {}', f'"scales": {{"a": {scale}}}')
            self.assert_refused("d.json: the mean or the deviation of a is no finite number", schema, path, "--dictionary",
                                self.write("d.json", edited))


class Standardised(Importing):
    def test_columns_have_mean_0_and_deviation_1(self):
        values = np.random.default_rng(2).exponential(50, 30000)
        path = self.write("x.csv", "y,a,b,c\n" + "".join(f"1,{v:.3f},{v:.3f},5\n" for v in values))
        schema = ("{label: y, dense: [a, {column: b, log: true, standardise: true}, "
                  "{column: c, standardise: true}]}")
        dense = self.imported(schema, path, "--dictionary", self.path("d.json")).dense
        np.testing.assert_allclose(dense[:, 0], values, atol=0.001)
        logs = np.log1p(dense[:, 0].astype(np.float64))
        np.testing.assert_allclose(dense[:, 1], (logs - logs.mean()) / logs.std(), atol=1e-4)
        self.assertEqual(dense[:, 2].tolist(), [0] * 30000)
        few = self.write("few.csv", "y,a,b,c\n1,3,3,6\n")
        dense = self.imported(schema, few, "--dictionary", self.path("d.json"), "--frozen-dictionary").dense
        self.assertAlmostEqual(dense[0, 1], (np.log1p(3) - logs.mean()) / logs.std(), places=4)
        self.assertEqual(dense[0, 2], 1)

    def test_by_the_samples_of_training_alone(self):
        rows = "".join(f"1,{n},{n}\n" for n in (1, 3, 100, 1000))
        batch = self.imported("{label: y, dense: [{column: n, standardise: true}], "
                              "timestamp: {column: t, format: seconds}, split: {time: 50}}",
                              self.write("x.csv", "y,n,t\n" + rows), "--test-output", self.path("t.h5"))
        self.assertEqual(batch.dense.tolist(), [[-1], [1]])
        self.assertEqual(Dataset(self.path("t.h5"))[:].dense.tolist(), [[98], [998]])

    def test_leave_out_what_is_malformed(self):
        batch = self.imported("{label: y, dense: [{column: n, standardise: true}]}",
                              self.write("x.csv", "y,n\n1,1\n7,1000\n0,3\n"), "--skip-malformed")
        self.assertEqual(batch.dense.tolist(), [[-1], [1]])


if __name__ == "__main__":
    main()
