"""Writes dataset files as h5py users do, into the folder given: good.h5, and files that the reader must refuse."""
import sys

import h5py
import numpy as np

N = 6


def base(path):
    f = h5py.File(path, "w")
    f.attrs["format"] = "dlrm-dataset"  # a string of variable length
    f.attrs["version"] = np.int32(1)
    f.attrs["samples"] = np.uint16(N)
    f.attrs["made_by"] = "a further attribute"
    f["label"] = np.array([0, 1, 0, 1, 1, 0], np.uint8)
    f["dense"] = np.arange(N * 2, dtype=np.float32).reshape(N, 2)
    f["sparse/one/ids"] = np.array([5, 4, 3, 2, 1, 0], np.int32)
    f["sparse/one/ids"].attrs["rows"] = np.int8(6)
    f["sparse/one/ids"].attrs["hotness"] = 1
    f["sparse/bags/ids"] = np.array([9, 8, 7], np.int64)
    f["sparse/bags/ids"].attrs["rows"] = np.array([10], np.int64)  # an array of one
    f["sparse/bags/offsets"] = np.array([0, 0, 2, 2, 3, 3, 3], np.int64)
    return f


def replace(f, name, data, **options):
    attributes = dict(f[name].attrs)
    del f[name]
    f.create_dataset(name, data=data, **options)
    for key, value in attributes.items():
        f[name].attrs[key] = value


def bad_format(f):
    f.attrs["format"] = np.bytes_("other")


def no_version(f):
    del f.attrs["version"]


def later_version(f):
    f.attrs["version"] = 2


def float_samples(f):
    f.attrs["samples"] = 6.0


def negative_samples(f):
    f.attrs["samples"] = -6


def two_samples(f):
    f.attrs["samples"] = np.array([N, N])


def chunked_sums(f):
    f.attrs["checksum_samples"] = 8
    f["checksums/label"] = np.zeros(1, np.uint64)


def no_label(f):
    del f["label"]


def label_elsewhere(f):
    del f["label"]
    f["label"] = h5py.ExternalLink("good.h5", "label")


def double_label(f):
    replace(f, "label", np.zeros(N, np.float64))


def short_label(f):
    replace(f, "label", np.zeros(N - 1, np.uint8))


def double_weight(f):
    f["weight"] = np.ones(N, np.float64)


def short_weight(f):
    f["weight"] = np.ones(N - 1, np.float32)


def flat_weight(f):
    f["weight"] = np.ones((N, 1), np.float32)


def chunked_weight(f):
    f.create_dataset("weight", data=np.ones(N, np.float32), chunks=(2,))


def flat_dense(f):
    replace(f, "dense", np.zeros(N * 2, np.float32))


def short_dense(f):
    replace(f, "dense", np.zeros((N - 1, 2), np.float32))


def double_dense(f):
    replace(f, "dense", np.zeros((N, 2), np.float64))


def big_endian_dense(f):
    replace(f, "dense", np.zeros((N, 2), ">f4"))


def unsigned_ids(f):
    replace(f, "sparse/one/ids", np.zeros(N, np.uint32))


def chunked_ids(f):
    replace(f, "sparse/one/ids", np.zeros(N, np.int32), chunks=(2,))


def compressed_dense(f):
    replace(f, "dense", np.zeros((N, 2), np.float32), compression="gzip")


def short_ids(f):
    replace(f, "sparse/one/ids", np.zeros(N - 1, np.int32))


def no_rows(f):
    del f["sparse/one/ids"].attrs["rows"]


def text_rows(f):
    f["sparse/one/ids"].attrs["rows"] = "six"


def hotness_and_offsets(f):
    f["sparse/bags/ids"].attrs["hotness"] = 1


def neither_hotness_nor_offsets(f):
    del f["sparse/one/ids"].attrs["hotness"]


def zero_hotness(f):
    f["sparse/one/ids"].attrs["hotness"] = 0


def short_offsets(f):
    replace(f, "sparse/bags/offsets", np.array([0, 0, 2, 2, 3, 3], np.int64))


def narrow_offsets(f):
    replace(f, "sparse/bags/offsets", np.array([0, 0, 2, 2, 3, 3, 3], np.int32))


def offsets_from_one(f):
    f["sparse/bags/offsets"][0] = 1


def offsets_beyond_ids(f):
    f["sparse/bags/offsets"][N] = 4


def no_ids(f):
    del f["sparse/one/ids"]


def sparse_is_data(f):
    del f["sparse"]
    f["sparse"] = np.zeros(3)


def falling_offsets(f):
    f["sparse/bags/offsets"][2] = 3
    f["sparse/bags/offsets"][3] = 1


STRUCTURE = [bad_format, no_version, later_version, float_samples, negative_samples, two_samples, chunked_sums, no_label, label_elsewhere,
             double_label, short_label, double_weight, short_weight, flat_weight, chunked_weight, flat_dense, short_dense,
             double_dense, big_endian_dense, unsigned_ids, chunked_ids,
             compressed_dense, short_ids, no_rows, text_rows, hotness_and_offsets, neither_hotness_nor_offsets,
             zero_hotness, short_offsets, narrow_offsets, offsets_from_one, offsets_beyond_ids, no_ids,
             sparse_is_data]

folder = sys.argv[1]
base(folder + "/good.h5").close()
with base(folder + "/weighted.h5") as f:
    f["weight"] = np.array([0, 1, 2, 0.5, 3, 4], np.float32)
with base(folder + "/values_falling_offsets.h5") as f:
    falling_offsets(f)
for change in STRUCTURE:
    with base(f"{folder}/refused_{change.__name__}.h5") as f:
        change(f)
