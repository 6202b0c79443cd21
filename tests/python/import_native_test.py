#!/usr/bin/env python3
"""The library of `dlrm-data import`: it reads text as Arrow does, and encodes values as docs/import.md says.
DLRM_IMPORT_LIBRARY names it."""
import contextlib
import io
import json
import os
import random
import unittest
from unittest import mock

import numpy as np

from import_fixture import ABSENT, Importing, main
from plain_encoding import Encoding

LIBRARY = os.environ.get("DLRM_IMPORT_LIBRARY")
FIELDS = ["0", "1", "-7", "12", "007", "-0", "3.5", "-0.1", ".5", "5.", "-", "+1", "1e5", "1E-3", "1e999", "2.5e-320", "0x1F", "nan",
          "inf", "-inf", "", "NA", "\\N", " 2 ", "2 ", "123456789012345678", "1234567890123456789",
          "12345678901234567890123", "0.1234567890123456789", "9007199254740993", "9007199254740993.5",
          "0.000000000000000000000012", "1.7976931348623157e308", "4.35", "true", "1,5", '"3"', '"a,b"', '""', '"a""b"',
          'a"b', '"a"b', '"', '"x', "a" * 100, "ä", "日本語", "\0", "\r", "x\ry", "|", "u1", "u2", "u3", " ", "\ufeff"]


@contextlib.contextmanager
def by_arrow():
    """Texts are read by Arrow alone."""
    from dlrm.importing import native
    with mock.patch.object(native, "read_csv", lambda *_: None):
        yield


@unittest.skipIf(ABSENT, ABSENT)
@unittest.skipIf(not LIBRARY, "DLRM_IMPORT_LIBRARY names no library")
class Native(Importing):
    def file(self, names, wanted, form=None, delimiter=",", quote='"'):
        from dlrm.importing.schema import Format
        from dlrm.importing.text import TextFile
        form = form or Format()
        form.header, form.columns = False, names
        return TextFile("x", io.BytesIO(), form, delimiter, quote, wanted, {})


class Chunks(Native):
    def arrays(self, file, data):
        """What the chunk's columns hold, or None if it is not whole and plain."""
        import pyarrow
        from dlrm.importing.text import TextChunk
        try:
            arrays, count = TextChunk(file, data, 1, data.count(b"\n")).fast()
        except (pyarrow.ArrowInvalid, UnicodeDecodeError):
            return None
        return count, {name: self.held(array) for name, array in arrays.items()}

    def held(self, array):
        import pyarrow
        array.validate(full=True)
        if pyarrow.types.is_dictionary(array.type):
            return array.indices.to_pylist(), array.dictionary.to_pylist(), array.null_count
        if pyarrow.types.is_floating(array.type):
            return array.to_numpy(zero_copy_only=False).tobytes()  # NaN for missing ones
        return array.to_pylist()

    def test_are_those_of_arrow(self):
        import pyarrow as pa
        from dlrm.importing import native
        from dlrm.importing.sources import TEXT_CODES
        wanted = {"a": pa.float64(), "b": pa.int64(), "c": TEXT_CODES, "d": pa.string()}
        taken, refused, r = 0, 0, random.Random(1)
        for trial in range(4000):
            quote = r.choice(('"', '"', ""))
            file = self.file(["a", "b", "x", "c", "d"], wanted, delimiter=r.choice(",,\t|"), quote=quote)
            plain = r.random() < 0.7
            lines = []
            for _ in range(r.choice((1, 2, 5, 30, 300))):
                fields = ([r.choice(("1", "-2.25", "", "1e3", "31.5")), r.choice(("5", "", "-12")), "x",
                           r.choice(("u1", "", "日本", f"v{r.randrange(50)}")), "d" * r.randrange(40)] if plain else
                          ["1", "2", "x", "u", "d"])
                if r.random() < (0.01 if plain else 0.3):
                    fields[r.randrange(5)] = r.choice(FIELDS)
                if quote and r.random() < 0.1:
                    fields = [field if '"' in field else f'"{field}"' for field in fields]
                lines.append(file.delimiter.join(fields) + r.choice(("\n", "\n", "\r\n" if not plain else "\n")))
            data = "".join(lines).encode()
            if r.random() < 0.1:
                at = r.randrange(len(data))
                data = data[:at] + bytes([r.choice((0xff, 0xc3, 0x22, 0x0a, 0x0d, 0x2c, 0x80))]) + data[at + 1:]
            if not data.endswith(b"\n"):
                data += b"\n"
            with by_arrow():
                expected = self.arrays(file, data)
            found = native.read_csv(data, data.count(b"\n"), file.names, wanted, {}, file.form, file.delimiter, quote)
            if found is None:
                refused += 1
                continue
            taken += 1
            found = data.count(b"\n"), {name: self.held(array) for name, array in found.items()}
            self.assertEqual(found, expected, data[:1000])
        self.assertGreater(taken, 500)
        self.assertGreater(refused, 500)

    def test_empty_lines_are_left_to_arrow(self):
        import pyarrow as pa
        for data in (b"1\n\n2\n", b"\n", b"1\r\n\r\n", b"1\n2\n"):
            file = self.file(["a"], {"a": pa.float64()})
            with by_arrow():
                expected = self.arrays(file, data)
            self.assertEqual(self.arrays(file, data), expected)
            self.assertEqual(expected is None, data != b"1\n2\n")

    def test_numbers_have_the_bits_of_arrow(self):
        import pyarrow as pa
        from dlrm.importing import native
        r = random.Random(2)
        texts = [f"{r.choice(('', '-'))}{r.randrange(10**r.randrange(1, 20))}" for _ in range(3000)]
        texts += [f"{text}.{r.randrange(10**r.randrange(1, 18))}" for text in texts]
        texts += [f"{text}e{r.randrange(-30, 30)}" for text in texts] + [repr(r.random() * 10**r.randrange(-9, 9))
                                                                        for _ in range(3000)]
        file = self.file(["a", "b"], {"a": pa.float64()})
        data = "".join(f"{text},x\n" for text in texts).encode()
        found = native.read_csv(data, len(texts), ["a", "b"], file.wanted, {}, file.form, ",", '"')
        with by_arrow():
            self.assertEqual(self.held(found["a"]), self.arrays(file, data)[1]["a"])

    def test_missing_texts_are_those_of_the_schema(self):
        import pyarrow as pa
        from dlrm.importing.schema import Format
        form = Format(missing=["-1", "none"])
        file = self.file(["a", "b"], {"a": pa.float64(), "b": pa.int64()}, form)
        for data, plain in ((b"-1,none\n2,-1\n", True), (b",1\n", False)):
            with by_arrow():
                expected = self.arrays(file, data)
            self.assertEqual(self.arrays(file, data), expected)
            self.assertEqual(expected is not None, plain)


def text_of_hash(value, r):
    """A text of 16 ASCII characters whose TextKey has this hash, by the inverse of mix64(), or None."""
    bits = (1 << 64) - 1
    unshift = lambda z, by: z ^ z >> by ^ z >> 2 * by ^ z >> 3 * by
    z = unshift(value, 31) * pow(0x94d049bb133111eb, -1, 1 << 64) & bits
    z = unshift(z, 27) * pow(0xbf58476d1ce4e5b9, -1, 1 << 64) & bits
    mixed = unshift(z, 30) - 0x9e3779b97f4a7c15 & bits
    last = bytes(r.randrange(32, 127) for _ in range(8))
    first = mixed ^ (int.from_bytes(last, "little") * 0x9e3779b97f4a7c15 + 16 & bits)
    text = first.to_bytes(8, "little") + last
    return text.decode() if text.isascii() else None


class Tables(Native):
    def test_texts_of_similar_hashes_are_told_apart(self):
        import pyarrow as pa
        from dlrm.importing.native import Table
        r, texts = random.Random(3), []
        while len(texts) < 5:  # the same tag, which is half of the hash, and the same first slot of 1024
            text = text_of_hash(0x1234567 << 32 | r.randrange(1 << 22) << 10 | 77, r)
            texts += [text] if text else []
        table = Table(of_texts=True)
        for _ in range(2):
            table.add(pa.array(texts[:4]))
            self.assertEqual(table.values(), texts[:4])
        table.add(pa.array(texts))
        self.assertEqual(table.values(), texts)


class Imports(Native):
    SCHEMA = """
    label: y
    dense: [{column: a, fill: 0.5, log: true}, {column: i, fill: -3, clip: [-2, 1000000000]}]
    sparse: [u, {column: h, hash: 999}, {column: i, values: integer, fill: 3}, {column: x, values: hex},
             {column: w, table: t}, {column: v, table: t}, {column: j, integers: 2000, fill: 7},
             {column: i, name: hi, hash: 77, values: integer, fill: -1}, {column: x, name: hx, hash: 55, values: hex},
             {column: t, list: {separator: '|', cap: 3}}, {column: t, name: last, list: {separator: '|', cap: 2, keep: last}},
             {column: g, hash: 99, fill: q}, {column: u, name: m, hash: 50}]
    """

    def records(self, count, seed):
        r = random.Random(seed)
        spelled = ("12", "12.0", "1.2e1", "012", "-0", "0", "", "é", " x ", "1e22", "1e999", "0.10", "true")
        for _ in range(count):
            yield {"y": str(r.randrange(2)), "a": r.choice(("", "2.5", str(r.randrange(99)), " 7 ", "NA")),
                   "u": r.choice((*spelled, f"user-name{r.randrange(count)}")), "h": "z" * r.randrange(200) + r.choice(spelled),
                   "i": r.choice(("", "12.0", str(r.randrange(-9, 1 << 40)))), "x": r.choice(("", f"{r.randrange(1 << 32):x}")),
                   "w": f"w{r.randrange(900)}", "v": f"w{r.randrange(90)}", "j": r.choice(("", str(r.randrange(2000)))),
                   "t": "|".join(r.choice((*spelled, "b", "\u3000")) for _ in range(r.randrange(6))), "g": "q" * r.randrange(3)}

    def test_are_those_of_plain_rules(self):
        import yaml
        expected = Encoding(yaml.safe_load(self.SCHEMA))
        kept = self.path("d.json")
        for name, count in (("a.csv", 5000), ("b.csv", 700)):
            records = list(self.records(count, name))
            text = ",".join(records[0]) + "\n" + "".join(",".join(record.values()) + "\n" for record in records)
            found = self.imported(self.SCHEMA, self.write(name, text), "--dictionary", kept)
            dense, sparse = expected.encode(records)
            np.testing.assert_allclose(found.dense, np.array(dense, np.float32), rtol=1e-6)
            for feature, ids in sparse.items():
                self.assertEqual(self.lists(found.sparse[feature]), ids, feature)
        with open(kept, encoding="utf-8") as file:
            dictionaries = json.load(file)["dictionaries"]
        self.assertEqual({name: len(values) for name, values in dictionaries.items()},
                         {name: len(values) for name, values in expected.dictionaries.items()})

    def test_a_library_that_cannot_be_loaded_is_named(self):
        from dlrm.importing import native
        native.library.cache_clear()
        self.addCleanup(native.library.cache_clear)
        with mock.patch.dict(os.environ, {"DLRM_IMPORT_LIBRARY": self.write("x.so", "?")}):
            self.assert_refused("DLRM_IMPORT_LIBRARY: cannot load", "{label: y}", self.write("x.csv", "y\n1\n"))


if __name__ == "__main__":
    main()
