"""`dlrm.Encoder`: frames get the numbers and ids that the import gave the same values, with DLRM_IMPORT_LIBRARY."""
import os
import unittest

import numpy as np

from import_fixture import ABSENT, Dataset, Importing, main

if not ABSENT:
    import pyarrow as pa
    from dlrm import Encoder
from dlrm.dataset import DatasetError

SCHEMA = """
label: y
dense: [{column: age, fill: 2, log: true}, {column: price, standardise: true}]
sparse: [user, {column: page, hash: 50, fill: none}, {column: item, integers: 9, fill: 8}, {column: code, values: hex},
         {column: tags, list: {separator: '|', cap: 2, keep: last}}]
"""
FRAME = {"age": [3.0, None, 7.5, 0.0], "price": [1, 2, 4, 8], "user": ["a", "12.0", "", "a"],
         "page": ["x", None, "y", "x"], "item": [1, None, 3, 8], "code": ["ff", "", "0a", "FF"],
         "tags": ["p|q|r", "", " |q", "p"]}


@unittest.skipIf(not os.environ.get("DLRM_IMPORT_LIBRARY"), "DLRM_IMPORT_LIBRARY names no library")
class Frames(Importing):
    def setUp(self):
        super().setUp()
        rows = zip(*([("" if value is None else str(value)) for value in column] for column in FRAME.values()))
        text = "y," + ",".join(FRAME) + "\n" + "".join("1," + ",".join(row) + "\n" for row in rows)
        self.samples = self.imported(SCHEMA, self.write("log.csv", text))
        self.encoder = Encoder.load(self.path("out.h5"))

    def assert_equal(self, found):
        np.testing.assert_array_equal(found.dense, self.samples.dense)
        self.assertEqual(found.dense.dtype, np.float32)
        for name, bags in self.samples.sparse.items():
            self.assertEqual(found.sparse[name].ids.tolist(), bags.ids.tolist(), name)
            self.assertEqual(found.sparse[name].offsets.tolist(), bags.offsets.tolist(), name)

    def test_get_what_the_import_made(self):
        self.assert_equal(self.encoder(FRAME))
        self.assert_equal(self.encoder(pa.table(FRAME)))
        lists = [["p", "q", "r"], [], ["q"], ["p"]]
        self.assert_equal(self.encoder({**FRAME, "tags": lists, "price": np.array([1, 2, 4, 8], np.float32)}))

    def test_of_other_values_get_id_0(self):
        found = self.encoder({name: column[:1] for name, column in FRAME.items()} | {"user": ["new"], "tags": ["new|p"]})
        self.assertEqual(found.sparse["user"].ids.tolist(), [0])
        self.assertEqual(found.sparse["tags"].ids.tolist(), [0, *self.samples.sparse["tags"].ids[-1:].tolist()])
        self.assertEqual(self.encoder({name: [] for name in FRAME}).dense.shape, (0, 2))

    def test_that_cannot_be_used_are_named(self):
        for change, expected in (({"age": [1, 2, "x", 3]}, "column age"), ({"age": ["1", "2", "x", "3"]}, "record 2: column age: 'x' is not a number"),
                                 ({"item": [1, 2, 9, 0]}, "record 2: column item: 9 is not from 0 to 8"),
                                 ({"user": ["\ud800"] * 4}, "column user: "),
                                 ({"user": ["a"]}, "the columns have 1 to 4 records")):
            with self.assertRaisesRegex(DatasetError, expected):
                self.encoder({**FRAME, **change})
        with self.assertRaisesRegex(DatasetError, "there is no column user"):
            self.encoder({name: column for name, column in FRAME.items() if name != "user"})

    def test_of_a_preprocessing_that_is_damaged_are_refused(self):
        for data in (b"", b"x", b"\x1f\x8b\x08" + bytes(20)):
            with self.assertRaisesRegex(DatasetError, "x.preprocessing.gz: its preprocessing is damaged"):
                Encoder.load(self.write("x.preprocessing.gz", data))
        with self.assertRaisesRegex(DatasetError, "none.h5: cannot read"):
            Encoder.load(self.path("none.h5"))


if __name__ == "__main__":
    main()
