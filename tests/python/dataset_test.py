#!/usr/bin/env python3
"""dlrm.dataset: files written from arrays and read back, checksums, and errors."""
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

from dlrm.dataset import Bags, Dataset, DatasetError, Dictionary, Hashed, Integers, Writer, crc32c, write, write_config

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

BLOCK = 16384


class Frame:
    """Stands for a DataFrame: columns by name, each of NumPy's object type as pandas has it for texts and lists."""

    def __init__(self, columns):
        self.columns = columns

    def __getitem__(self, name):
        return self.columns[name]

    def keys(self):
        return self.columns.keys()


def content(path):
    """Every dataset and attribute with its type, but for the preprocessing, which says how they came to be."""
    found = {}

    def visit(name, thing):
        if name == "preprocessing":
            return
        found[name] = {key: (np.asarray(value).dtype.str, np.asarray(value).tolist())
                       for key, value in thing.attrs.items()}
        if isinstance(thing, h5py.Dataset):
            found[name]["(values)"] = (thing.dtype.str, thing.shape, thing[...].tobytes())

    with h5py.File(path, "r") as file:
        visit("/", file)
        file.visititems(visit)
    return found


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "data.h5")

    def assert_bags(self, bags, lists):
        self.assertEqual([list(bags.ids[a:b]) for a, b in zip(bags.offsets, bags.offsets[1:])],
                         [list(values) for values in lists])

    def assert_error(self, expected, action, *arguments, **options):
        with self.assertRaises(DatasetError) as caught:
            action(*arguments, **options)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        self.assertIn(expected, text)
        self.assertTrue(text.startswith(self.folder), text)
        return text


def sample(count, seed=1):
    r = np.random.default_rng(seed)
    lists = [r.integers(0, 50, n).tolist() for n in r.integers(0, 4, count)]
    return {"y": r.integers(0, 2, count), "a": r.random(count), "m": r.random((count, 2)),
            "u": r.integers(0, 9, count), "h": r.integers(0, 7, (count, 3)), "tags": lists}


class RoundTrip(Folder):
    def test_keeps_every_value_at_odd_sizes(self):
        for count in (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 7):
            data = sample(count)
            write(self.path, data, label="y", dense=["a", "m"], sparse=["u", "h", "tags"])
            dataset = Dataset(self.path)
            self.assertEqual(len(dataset), count)
            got = dataset[:]
            np.testing.assert_array_equal(got.label, data["y"])
            self.assertEqual(got.label.dtype, np.uint8)
            dense = np.column_stack([data["a"], data["m"]]).astype(np.float32)
            np.testing.assert_array_equal(got.dense, dense)
            np.testing.assert_array_equal(got.sparse["u"].ids, data["u"])
            np.testing.assert_array_equal(got.sparse["h"].ids.reshape(-1, 3), data["h"])
            self.assert_bags(got.sparse["tags"], data["tags"])

    def test_of_slices_begins_offsets_with_0(self):
        data = sample(BLOCK + 100)
        write(self.path, data, label="y", dense="m", sparse=["h", "tags"])
        dataset = Dataset(self.path)
        for begin, end in ((0, 1), (5, 9), (BLOCK - 1, BLOCK + 1), (BLOCK + 99, BLOCK + 100), (7, 7)):
            batch = dataset[begin:end]
            np.testing.assert_array_equal(batch.label, data["y"][begin:end])
            self.assert_bags(batch.sparse["tags"], data["tags"][begin:end])
            self.assert_bags(batch.sparse["h"], data["h"][begin:end])
        np.testing.assert_array_equal(dataset[-1].dense, data["m"][-1:].astype(np.float32))
        self.assertEqual(sum(1 for _ in Dataset(self.path)), BLOCK + 100)

    def test_of_chunks_is_that_of_the_whole(self):
        data = sample(3 * BLOCK // 2)
        whole = os.path.join(self.folder, "whole.h5")
        write(whole, data, label="y", dense=["a"], sparse=["u", "tags", "h"])
        with Writer(self.path, label="y", dense=["a"], sparse=["u", "tags", "h"]) as writer:
            for begin, end in ((0, 0), (0, 1), (1, 700), (700, BLOCK + 3), (BLOCK + 3, len(data["y"]))):
                writer.append({name: column[begin:end] for name, column in data.items()})
            self.assertFalse(os.path.exists(self.path))
        self.assertTrue(content(whole) == content(self.path))

    def test_of_empty_bags_and_of_no_samples(self):
        write(self.path, {"y": [0, 1], "a": [1, 2], "t": Bags(np.array([], np.int64), [0, 0, 0])}, "y", "a", ["t"])
        self.assert_bags(Dataset(self.path)[:].sparse["t"], [[], []])
        write(self.path, {"y": [], "a": [], "t": []}, "y", "a", ["t"])
        self.assertEqual(len(Dataset(self.path)), 0)
        self.assertEqual(len(Dataset(self.path)[:].label), 0)

    def test_takes_frames_of_objects(self):
        lists = np.empty(3, object)
        lists[:] = [np.array([4, 5]), np.array([]), np.array([6])]
        frame = Frame({"y": np.array([True, False, True]), "a": np.array([1, 2.5, np.float32(3)], object),
                       "c": np.array(["x", "y", "x"], object), "t": lists, "n": np.array([3, 1, 2], object)})
        encodings = write(self.path, frame, label="y", dense=["a"], sparse=["c", "t", "n"])
        self.assertEqual({name: type(encoding) for name, encoding in encodings.items()},
                         {"c": Dictionary, "t": Integers, "n": Integers})
        batch = Dataset(self.path)[:]
        self.assertEqual(batch.label.tolist(), [1, 0, 1])
        self.assertEqual(batch.sparse["c"].ids.tolist(), [1, 2, 1])
        self.assertEqual(batch.sparse["n"].ids.tolist(), [3, 1, 2])
        self.assert_bags(batch.sparse["t"], [[4, 5], [], [6]])

    def test_takes_a_pandas_frame(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = pandas.DataFrame({
            "y": pandas.array([1, 0, 1], dtype="Int64"), "a": [1.0, 2.0, 3.0], "n": pandas.array([4, 5, 6], dtype="Int64"),
            "c": pandas.Categorical(["q", "r", "q"]), "s": pandas.array(["x", "y", "x"], dtype="string"),
            "t": [["a"], [], ["b", "a"]]}).iloc[[2, 1, 0]]
        write(self.path, frame, label="y", dense=["a", "n"], sparse=["c", "s", "t", "n"])
        batch = Dataset(self.path)[:]
        self.assertEqual((batch.label.dtype, batch.label.tolist()), (np.uint8, [1, 0, 1]))
        self.assertEqual(batch.dense.tolist(), [[3, 6], [2, 5], [1, 4]])
        self.assertEqual({name: bags.ids.tolist() for name, bags in batch.sparse.items()},
                         {"c": [1, 2, 1], "s": [1, 2, 1], "t": [1, 2, 2], "n": [6, 5, 4]})
        frame["s"] = pandas.array(["x", pandas.NA, "x"], dtype="string")
        self.assert_error("column s, record 1: the value is missing", write, self.path, frame, "y", [], ["s"])

    def test_waits_for_a_value_to_choose_the_encoding(self):
        with Writer(self.path, "y", sparse=["t"]) as writer:
            writer.append({"y": [0], "t": [[]]})
            writer.append({"y": [0], "t": [["x"]]})
        self.assertIsInstance(writer.encodings["t"], Dictionary)

    def test_keeps_ids_at_their_bounds(self):
        for rows, kind in (((1 << 31), np.int32), ((1 << 31) + 1, np.int64), ((1 << 63) - 1, np.int64)):
            write(self.path, {"y": [0, 1], "u": np.array([0, rows - 1])}, "y", sparse={"u": Integers(rows)})
            dataset = Dataset(self.path)
            self.assertEqual(dataset.features["u"].dtype, kind)
            self.assertEqual(dataset.features["u"].rows, rows)
            self.assertEqual(dataset[:].sparse["u"].ids.tolist(), [0, rows - 1])

    def test_keeps_soft_labels(self):
        write(self.path, {"y": [0.0, 0.25, 1.0]}, "y")
        self.assertEqual(Dataset(self.path)[:].label.tolist(), [0, 0.25, 1])

    def test_joins_the_files_of_a_folder(self):
        data = sample(20)
        for name, part in (("b.h5", slice(7, 20)), ("a.h5", slice(0, 7))):
            write(os.path.join(self.folder, name), {k: v[part] for k, v in data.items()}, "y", "m", ["h", "tags"])
        batch = Dataset(self.folder)[5:15]
        np.testing.assert_array_equal(batch.label, data["y"][5:15])
        self.assert_bags(batch.sparse["tags"], data["tags"][5:15])


class Encodings(Folder):
    def ids(self, values, encoding):
        write(self.path, {"y": np.zeros(len(values), int), "c": values}, "y", sparse={"c": encoding})
        return Dataset(self.path)[:].sparse["c"].ids.tolist()

    def test_number_values_by_first_appearance(self):
        self.assertEqual(self.ids(["b", "a", "b", "c"], Dictionary()), [1, 2, 1, 3])
        self.assertEqual(Dataset(self.path).features["c"].rows, 4)

    def test_give_rare_values_0(self):
        self.assertEqual(self.ids(["b", "a", "c", "c", "a", "d"], Dictionary(threshold=2)), [0, 1, 2, 2, 1, 0])
        self.assertEqual(Dataset(self.path).features["c"].rows, 3)

    def test_count_over_all_chunks(self):
        with Writer(self.path, "y", sparse={"c": Dictionary(threshold=2)}) as writer:
            writer.append({"y": [0, 0], "c": ["b", "a"]})
            writer.append({"y": [0, 0], "c": ["c", "a"]})
        self.assertEqual(Dataset(self.path)[:].sparse["c"].ids.tolist(), [0, 1, 0, 1])

    def test_keep_a_finished_dictionary(self):
        encoding = Dictionary(threshold=2)
        self.ids(["b", "a", "a"], encoding)
        self.assertEqual(self.ids(["c", "a", "b"], encoding), [0, 1, 0])
        saved = os.path.join(self.folder, "dictionary.json")
        encoding.save(saved)
        self.assertEqual(self.ids(["c", "a", "b"], Dictionary.load(saved)), [0, 1, 0])

    def test_are_shared_by_features(self):
        shared = Dictionary(threshold=2)
        write(self.path, {"y": [0, 1], "c": ["x", "y"], "d": [["z", "y"], []]}, "y", sparse={"c": shared, "d": shared})
        batch = Dataset(self.path)[:]
        self.assertEqual((batch.sparse["c"].ids.tolist(), batch.sparse["d"].ids.tolist()), ([0, 1], [0, 1]))

    def test_are_not_fixed_by_another_file_in_between(self):
        shared = Dictionary()
        writer = Writer(self.path, "y", sparse={"c": shared})
        writer.append({"y": [0], "c": ["x"]})
        write(os.path.join(self.folder, "other.h5"), {"y": [0], "c": ["z"]}, "y", sparse={"c": shared})
        self.assert_error("column c, record 1: another file has fixed", writer.append, {"y": [0], "c": ["y"]})

    def test_give_one_id_to_a_number_and_its_text(self):
        texts = np.array(["1000", "anon", "1001"], object)
        encoding = Dictionary()
        with Writer(self.path, "y", sparse={"c": encoding}) as writer:
            writer.append({"y": [0, 0], "c": np.array([1000, 1001])})
            writer.append({"y": [0, 0, 0], "c": texts})
        self.assertEqual(Dataset(self.path)[:].sparse["c"].ids.tolist(), [1, 2, 1, 3, 2])
        self.assertEqual(self.ids(np.array([1001, 1000], np.uint64), encoding), [2, 1])
        saved = os.path.join(self.folder, "dictionary.json")
        encoding = Dictionary()
        self.ids(texts, encoding)
        encoding.save(saved)
        self.assertEqual(self.ids([1001, 1000, 5], Dictionary.load(saved)), [3, 1, 0])

    def test_refuse_to_hash_a_number_and_its_text(self):
        for first, second in (([1], ["1"]), (["1"], np.array([1]))):
            encoding = Hashed(100)
            self.ids(first, encoding)
            self.assert_error("column c, record 0", self.ids, second, encoding)

    def test_see_each_integer_of_64_bits_and_each_mask(self):
        values = [1 << 63, (1 << 63) + 1, -1, 1 << 53, (1 << 53) + 1]
        self.assertEqual(self.ids(values, Dictionary()), [1, 2, 3, 4, 5])
        lists = [np.array([1 << 63], np.uint64), np.array([-1, (1 << 53) + 1])]
        self.assertEqual(self.ids(lists, Dictionary()), [1, 2, 3])
        masked = np.ma.masked_array([1, 2, 3], [False, True, False])
        self.assert_error("column c, record 1: the value is missing", self.ids, masked, Dictionary())
        self.assert_error("column c, record 1: the value is missing", self.ids, [np.array([1, 2]), masked], Dictionary())

    def test_hash_as_documented(self):
        self.assertEqual(self.ids(np.array([0, 1, 1 << 40]), Hashed(1 << 31)),
                         [x % (1 << 31) for x in (0xe220a8397b1dcdaf, 0x910a2dec89025cc1, self.mix(1 << 40))])
        self.assertEqual(self.ids(["123456789"], Hashed(1000)), [self.mix(0xcbf43926) % 1000])
        self.assertEqual(self.ids(np.array([7, -1], object), Hashed(1000)), self.ids(np.array([7, -1]), Hashed(1000)))

    @staticmethod
    def mix(value):
        mask = (1 << 64) - 1
        z = (value + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        return z ^ z >> 31


class Checksums(Folder):
    def test_have_the_standard_value(self):
        for data, expected in ((b"123456789", 0xe3069283), (bytes(32), 0x8a9136aa), (b"", 0)):
            self.assertEqual(crc32c.crc32c(np.frombuffer(data, np.uint8)), expected)

    def test_of_numpy_have_the_standard_value_at_any_length(self):
        r = np.random.default_rng(3)
        for size in [*range(140), 1000, 4095, 4096, 65537]:
            data = r.integers(0, 256, size, dtype=np.uint8)
            self.assertEqual(crc32c.with_numpy(data), crc32c.bytewise(data), size)
            if crc32c.isal():
                self.assertEqual(crc32c.with_isal(data), crc32c.bytewise(data), size)

    def test_find_a_damaged_block_of_each_column(self):
        data = sample(2 * BLOCK + 5)
        write(self.path, data, "y", ["m"], ["u", "h", "tags"])
        with open(self.path, "rb") as file:
            good = file.read()
        columns = {"/label": BLOCK + 1, "/dense": 2 * (BLOCK + 1), "/sparse/u/ids": BLOCK + 1,
                   "/sparse/h/ids": 3 * BLOCK, "/sparse/tags/offsets": BLOCK + 5}
        for name, element in columns.items():
            with open(self.path, "wb") as file:
                file.write(good)
            with h5py.File(self.path, "r+") as file:
                file[name][...] = damaged(file[name][...], element)
            dataset = Dataset(self.path)
            dataset[:BLOCK]
            dataset[2 * BLOCK:]
            self.assert_error(f"{name} is damaged in samples {BLOCK} to {2 * BLOCK - 1}: their CRC32C",
                              dataset.__getitem__, slice(BLOCK + 100, BLOCK + 101))
            dataset = Dataset(self.path, verify=False)
            if name == "/label":
                dataset[:]

    def test_of_a_cut_file_are_not_reached(self):
        write(self.path, sample(100), "y", ["m"], ["u"])
        os.truncate(self.path, os.path.getsize(self.path) // 2)
        self.assert_error("", Dataset, self.path)


def damaged(values, element):
    flat = values.reshape(-1).copy()
    flat[element] = 1 - flat[element] if values.dtype == np.uint8 else flat[element] + 1
    return flat.reshape(values.shape)


class Errors(Folder):
    def refused(self, expected, sparse=("u",), **changed):
        data = {"y": [0, 1, 1], "a": [1.0, 2.0, 3.0], "u": [3, 4, 5], **changed}
        self.assert_error(expected, write, self.path, data, "y", ["a"], sparse)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_second_writer_of_a_file_is_refused_until_the_first_ends(self):
        with Writer(self.path, "y") as writer:
            self.assert_error("is being written", Writer, self.path, "y")
            writer.append({"y": [0]})
        write(self.path, {"y": [1]}, "y")
        self.assertEqual(os.listdir(self.folder), [os.path.basename(self.path)])

    def test_an_output_that_is_no_file_stays(self):
        os.mkfifo(self.path)
        data = {"y": [0, 1], "u": [3, 4]}
        self.assert_error("is no regular file", write, self.path, data, "y", [], ["u"])
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path).st_mode))

    def test_name_column_and_record_of_a_missing_value(self):
        class NA:  # as pandas.NA: a comparison gives NA, which has no truth value
            def __eq__(self, other):
                return self

            def __bool__(self):
                raise TypeError("boolean value of NA is ambiguous")
            __hash__ = object.__hash__

        for nothing in (None, float("nan"), NA()):
            for name in ("y", "a", "u"):
                self.refused(f"column {name}, record 1: the value is missing", **{name: [1, nothing, 0]})
            for encoding in (Dictionary(), Hashed(9)):
                self.refused("column u, record 1: the value is missing", u=["x", nothing, "z"], sparse={"u": encoding})
            self.refused("column u, record 2: the value is missing", u=[[1], [], [nothing]])
        self.refused("column u, record 1: the value is missing", u=[[1], None, [2]])
        self.refused("column u, record 1: the value is missing", u=np.array([1, np.nan, 2]))
        known = Dictionary()
        known.fix()
        self.refused("column u, record 2: the value is missing", u=["x", "y", None], sparse={"u": known})

    def test_name_the_column_of_a_wrong_type(self):
        self.refused("column a, record 0: 'x' is a str; a number is needed", a=["x", 2, 3])
        self.refused("column a: its type is <U1; numbers are needed", a=np.array(["x", "y", "z"]))
        self.refused("column u: its type is float64; integers are needed", u=np.array([1.0, 2, 3]))
        self.refused("column u, record 2: 2.5 is a float; a text or an integer is needed", u=["x", 7, 2.5])
        self.refused("column u, record 1: 'x' is a str; an integer is needed", u=[3, "x", 5], sparse={"u": Integers()})
        self.refused("column u: its shape is (3, 1, 1)", u=np.zeros((3, 1, 1), int))
        self.refused("column y: its shape is (3, 2); a sample has one label", y=np.zeros((3, 2), int))

    def test_name_the_record_of_a_value_out_of_range(self):
        self.refused("column u, record 2: id 5 is outside 0 to 4", sparse={"u": Integers(5)})
        self.refused("column u, record 1: id -1 is outside 0 to", u=[0, -1, 2])
        self.refused("column u, record 2: id 9 is outside 0 to 8", u=[[1, 2], [], [3, 9]], sparse={"u": Integers(9)})
        self.refused("column u, record 1: id 9 is outside 0 to 8", u=np.array([[1, 2], [3, 9], [9, 9]]),
                     sparse={"u": Integers(9)})
        self.refused("column u, record 1: id 18446744073709551615 is outside", u=np.array([0, 2**64 - 1, 1], np.uint64))
        self.refused("column y, record 1: label 2 is outside 0 to 1", y=[0, 2, 1])
        self.refused("column a, record 1: 1e+300 is too large for float32", a=[0, 1e300, 1])
        self.refused("column a, record 2: inf is not finite", a=np.array([[0, 1], [2, 3], [4, np.inf]]))

    def test_name_columns_of_unequal_lengths(self):
        self.refused("column u ends at record 2, column y at record 3", u=[1, 2])
        self.refused("column a ends at record 4, column y at record 3", a=[1, 2, 3, 4])
        self.refused("column u ends at record 2, column y at record 3", u=Bags(np.array([1]), [0, 1, 1]))

    def test_name_a_column_that_is_not_there(self):
        self.refused("there is no column v; there are ['y', 'a', 'u']", sparse=["v"])
        self.assert_error("cannot be named 'a b'", write, self.path, {}, "y", [], ["a b"])

    def test_name_wrong_offsets(self):
        self.refused("column u: its offsets go from 0 to 2; they must go from 0 to the number of ids, 3",
                     u=Bags(np.array([1, 2, 3]), [0, 1, 1, 2]))
        self.refused("column u, record 1: its offsets fall from 2 to 1", u=Bags(np.array([1, 2, 3]), [0, 2, 1, 3]))

    def test_count_records_over_chunks(self):
        writer = Writer(self.path, "y", sparse={"u": Integers(5), "t": None})
        writer.append({"y": [0, 1], "u": [1, 2], "t": [[1], [2]]})
        with self.assertRaisesRegex(DatasetError, "column t, record 2: 1 id in a sample after lists"):
            writer.append({"y": [0, 1], "u": [1, 2], "t": [1, 2]})
        with self.assertRaisesRegex(DatasetError, "this writer is closed"):
            writer.append({"y": [0], "u": [1], "t": [[1]]})

    def test_leave_the_file_that_was_there(self):
        write(self.path, {"y": [0, 1]}, "y")
        with self.assertRaises(ZeroDivisionError):
            with Writer(self.path, "y") as writer:
                writer.append({"y": [1]})
                1 / 0
        with self.assertRaises(DatasetError):
            write(self.path, {"y": [0, 7]}, "y")
        self.assertEqual(Dataset(self.path)[:].label.tolist(), [0, 1])
        self.assertEqual(os.listdir(self.folder), ["data.h5"])

    def test_name_a_path_that_cannot_be_written(self):
        self.assert_error("cannot create: No such file or directory", write, os.path.join(self.folder, "no", "x.h5"),
                          {"y": [1]}, "y")
        os.mkdir(self.path)
        self.assert_error("is no regular file", write, self.path, {"y": [1]}, "y")
        self.assertEqual(os.listdir(self.folder), ["data.h5"])

    def test_of_reading_name_what_would_be_right(self):
        self.assert_error("there is no such file", Dataset, self.path)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("text")
        self.assert_error("not an HDF5 file, or a damaged one", Dataset, self.path)
        with h5py.File(self.path, "w") as file:
            file["label"] = [1]
        self.assert_error("not a dataset", Dataset, self.path)


class Refused(Folder):
    """The files that the C++ reader must refuse."""

    def test_are_refused_here_too(self):
        subprocess.run([sys.executable, os.path.join(ROOT, "tests", "data", "make_datasets.py"), self.folder], check=True)
        names = [name for name in os.listdir(self.folder) if name.startswith("refused_")]
        self.assertGreater(len(names), 20)
        for name in names:
            with self.subTest(name):
                self.assert_error("", Dataset, os.path.join(self.folder, name))
        self.assert_error("/label lies in another file", Dataset,
                          os.path.join(self.folder, "refused_label_elsewhere.h5"))
        self.assert_bags(Dataset(os.path.join(self.folder, "good.h5"))[:].sparse["bags"],
                         [[], [9, 8], [], [7], [], []])
        self.assert_error("record 2: feature bags: its offsets fall",
                          Dataset(os.path.join(self.folder, "values_falling_offsets.h5")).__getitem__, slice(0, 6))

    def test_values_are_refused_when_read(self):
        for change, expected in ((("label", 1, 7), "record 1: label: label 7 is outside"),
                                 (("dense", 5, np.nan), "record 2: a dense value is not finite"),
                                 (("sparse/u/ids", 2, 9), "record 2: feature u: id 9 is outside 0 to 5"),
                                 (("sparse/t/ids", 2, -1), "record 2: feature t: id -1 is outside 0 to 8")):
            write(self.path, {"y": [0, 1, 1], "m": np.ones((3, 2)), "u": [3, 4, 5], "t": [[1, 2], [], [8]]}, "y",
                  "m", ["u", "t"])
            with h5py.File(self.path, "r+") as file:
                del file.attrs["checksum_samples"]
                name, element, value = change
                flat = file[name][...].reshape(-1)
                flat[element] = value
                file[name][...] = flat.reshape(file[name].shape)
            self.assert_error(expected, Dataset(self.path).__getitem__, slice(0, 3))


class Config(Folder):
    def setUp(self):
        super().setUp()
        self.config = os.path.join(self.folder, "mine.yaml")
        self.test = os.path.join(self.folder, "test.h5")
        write(self.path, {"y": [0, 1], "m": np.ones((2, 3)), "u": [3, 4], "t": [[1, 2, 3], [1, 1]],
                          "true": [[1, 2], [3, 0]]}, "y", "m", {"u": Integers(), "t": Integers(), "true": Integers(10)})

    def text(self):
        with open(self.config, encoding="utf-8") as file:
            return file.read()

    def test_fits_the_dataset(self):
        write_config(self.config, self.path, embedding_dim=8)
        for line in ("dense_features: 3", "embedding_dim: 8", "bottom_mlp: [64, 8]", "- {name: u, rows: 5}",
                     "- {name: t, rows: 4, hotness: 2}", '- {name: "true", rows: 10, hotness: 2}',
                     "global_batch_size: 2\n"):
            self.assertIn(line, self.text())

    def test_has_rows_for_the_test_data_too(self):
        write(self.test, {"y": [0], "m": np.ones((1, 3)), "u": [7], "t": [[9]], "true": [[1, 2]]}, "y", "m",
              ["u", "t", "true"])
        write_config(self.config, self.path, self.test, shared={"all": ["u", "t"]})
        self.assertIn("- {name: all, rows: 10, features: [{name: u, hotness: 1}, {name: t, hotness: 2}]}", self.text())

    def test_names_what_cannot_be_trained_on(self):
        write(self.test, {"y": [0], "m": np.ones((1, 3)), "u": [7]}, "y", "m", ["u"])
        self.assert_error("there is no feature t as in", write_config, self.config, self.path, self.test)
        self.assertFalse(os.path.exists(self.config))

    def test_has_no_bottom_mlp_without_dense_columns(self):
        write(self.test, {"y": [0], "u": [7], "v": [1]}, "y", sparse=["u", "v"])
        write_config(self.config, self.test)
        for line in ("dense_features: 0", "bottom_mlp: []"):
            self.assertIn(line, self.text())


if __name__ == "__main__":
    unittest.main()
