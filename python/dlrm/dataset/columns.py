"""The columns of a dataset file: kept in spools while they grow, then stored block by block with checksums."""
import errno
import os

import h5py
import numpy as np

from .crc32c import crc32c
from .encodings import default_encoding
from .values import BadValue, sparse_part

BLOCK = 16384  # samples of a block with a checksum
PIECE = 1 << 20  # elements that are moved at once
ALIGNMENT = 4096  # of columns in the file, so that a reader may map them


class Spool:
    """A growing array in a file without a name."""

    def __init__(self, file, dtype):
        self.file, self.dtype = file, dtype
        self.count = 0

    def append(self, array):
        self.file.write(np.ascontiguousarray(array))
        self.count += array.size

    def read(self, begin, end):
        size = np.dtype(self.dtype).itemsize
        self.file.seek(begin * size)
        return np.frombuffer(self.file.read((end - begin) * size), self.dtype)

    def move_last(self, count, other):
        """Moves the last `count` elements to another spool."""
        end, self.count = self.count, self.count - count
        for begin in range(self.count, end, PIECE):
            other.append(self.read(begin, min(begin + PIECE, end)))
        self.cut()

    def cut(self):
        self.file.truncate(self.count * np.dtype(self.dtype).itemsize)
        self.file.seek(0, os.SEEK_END)


class StoredColumn:
    """A column of the finished file. A block holds `per_sample` elements of each sample and `more` after them, or
    with `offsets`, a spool, the samples' bags."""

    def __init__(self, name, spool, shape, per_sample=1, more=0, offsets=None, dtype=None, attributes=None,
                 final=None):
        self.name, self.spool, self.shape = name, spool, shape
        self.per_sample, self.more, self.offsets = per_sample, more, offsets
        self.dtype = np.dtype(dtype or spool.dtype)
        self.attributes = attributes or {}
        self.final = final  # the final id of each id
        self.position = self.sums_position = None  # in the file

    def range_of(self, begin, end):
        """The elements of samples begin to end."""
        if self.offsets is not None:
            return int(self.offsets.read(begin, begin + 1)[0]), int(self.offsets.read(end, end + 1)[0])
        return begin * self.per_sample, end * self.per_sample + self.more

    def write(self, file, samples):
        sums = []
        for begin in range(0, samples, BLOCK):
            first, last = self.range_of(begin, min(begin + BLOCK, samples))
            values = self.spool.read(first, last)
            if self.final is not None:
                values = self.final[values]
            values = np.ascontiguousarray(values, self.dtype)
            sums.append(crc32c(values))
            if values.size:  # a column without values has no place
                file.seek(self.position + first * self.dtype.itemsize)
                file.write(values)
        if sums:
            file.seek(self.sums_position)
            file.write(np.array(sums, "<u4").tobytes())


class Feature:
    """A sparse feature that is being written."""

    def __init__(self, name, encoding, spool, weights=None):
        self.name, self.encoding, self.spool = name, encoding, spool
        self.weight_column = weights
        self.weights = spool(np.float32) if weights is not None else None
        self.ids = spool(getattr(encoding, "dtype", np.int64))
        self.offsets = None  # a spool, if the feature has bags of any length
        self.hotness = None  # unknown; 0: with offsets
        self.largest = 0
        self.encodes = False  # has had a value
        self.fills_dictionary = False

    def part(self, column):
        part = sparse_part(column)
        if self.hotness not in (None, part.hotness) and part.samples > 0:
            raise BadValue(0, f"{shape_name(part.hotness)} after {shape_name(self.hotness)}")
        return part

    def encode(self, part):
        if len(part.values) == 0:
            return np.empty(0, np.int64)  # says nothing of the encoding
        if self.encoding is None:
            self.encoding = default_encoding(part.values)
        if not self.encodes:
            self.encodes, self.fills_dictionary = True, not getattr(self.encoding, "fixed", True)
        elif self.fills_dictionary and self.encoding.fixed:
            raise BadValue(0, "another file has fixed the dictionary; finish this one first, or give it its own")
        if hasattr(self.encoding, "check_kind"):
            self.encoding.check_kind(self.name, part.values)
        return self.encoding.encode(part.values)

    def append(self, ids, part, weights=None):
        if self.hotness is None:
            self.hotness = part.hotness
            if self.hotness == 0:
                self.offsets = self.spool(np.int64)
                self.offsets.append(np.zeros(1, np.int64))
        if self.hotness == 0:
            self.offsets.append(part.offsets[1:] + self.ids.count)
        self.ids.append(ids)
        if weights is not None:
            self.weights.append(weights)
        self.largest = max(self.largest, int(ids.max(initial=0)))

    def move_last(self, begin, end, other):
        """Moves samples begin to end, the last ones, to another feature, which has none."""
        other.hotness, other.encodes, other.fills_dictionary = self.hotness, self.encodes, self.fills_dictionary
        other.largest = self.largest
        if self.hotness:
            self.move_last_ids((end - begin) * self.hotness, other)
        elif self.hotness == 0:
            first = int(self.offsets.read(begin, begin + 1)[0])
            self.move_last_ids(self.ids.count - first, other)
            other.offsets = other.spool(np.int64)
            for at in range(begin, end + 1, PIECE):
                other.offsets.append(self.offsets.read(at, min(at + PIECE, end + 1)) - first)
            self.offsets.count = begin + 1
            self.offsets.cut()

    def move_last_ids(self, count, other):
        self.ids.move_last(count, other.ids)
        if self.weights is not None:
            self.weights.move_last(count, other.weights)

    def columns(self, samples):
        final = self.encoding.fix() if self.fills_dictionary else None
        rows = self.encoding.rows if self.encoding else None
        rows = rows or self.largest + 1
        attributes = {"rows": rows}
        if self.hotness != 0:
            attributes["hotness"] = self.hotness or 1
        path = f"/sparse/{self.name}"
        yield StoredColumn(f"{path}/ids", self.ids, (self.ids.count,), self.hotness or 1, offsets=self.offsets,
                           dtype=np.int32 if rows <= 1 << 31 else np.int64, attributes=attributes, final=final)
        if self.hotness == 0:
            yield StoredColumn(f"{path}/offsets", self.offsets, (samples + 1,), more=1)
        if self.weights is not None:
            yield StoredColumn(f"{path}/weights", self.weights, (self.weights.count,), self.hotness or 1,
                               offsets=self.offsets)


def shape_name(hotness):
    return f"{hotness} id{'' if hotness == 1 else 's'} in a sample" if hotness else "lists"


def create_file(path, samples, columns, preprocessing=b""):
    """Creates the HDF5 file with room for all columns, and notes where they are. libhdf5 crashes if a disk is full, so
    it writes to memory, in which columns are holes."""
    with open(os.memfd_create("dataset"), "r+b", buffering=0) as memory:
        place = write_structure(memory, samples, columns, len(preprocessing))
        copy_data(memory.fileno(), path)
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(preprocessing)


def copy_data(source, path):
    """Copies what is written of a file to a new one, and leaves its holes."""
    end, size = 0, os.fstat(source).st_size
    with open(path, "xb") as file:
        file.truncate(size)
        while end < size:
            try:
                begin = os.lseek(source, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # a hole up to the end
            end = os.lseek(source, begin, os.SEEK_HOLE)
            file.seek(begin)
            file.write(os.pread(source, end - begin, begin))


def write_structure(memory, samples, columns, preprocessing):
    """Returns the position of so many bytes of a preprocessing."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_alignment(ALIGNMENT, ALIGNMENT)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, memory)
    with h5py.File(h5py.h5f.create(b"dataset", h5py.h5f.ACC_EXCL, fapl=access)) as file:
        file.attrs.create("format", np.bytes_("dlrm-dataset"))
        for name, value in (("version", 1), ("samples", samples), ("checksum_samples", BLOCK)):
            file.attrs.create(name, value, dtype=np.int64)
        for column in columns:
            dataset = create_dataset(file, column.name, column.shape, column.dtype)
            column.position = dataset.id.get_offset()
            for name, value in column.attributes.items():
                dataset.attrs.create(name, value, dtype=np.int64)
            sums = create_dataset(file, "/checksums" + column.name, (-(-samples // BLOCK),), np.dtype(np.uint32))
            column.sums_position = sums.id.get_offset()
        if preprocessing == 0:
            return 0
        return create_dataset(file, "/preprocessing", (preprocessing,), np.dtype(np.uint8)).id.get_offset()


def create_dataset(file, name, shape, dtype):
    """A contiguous dataset that has its place in the file, and whose elements are not written."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.CONTIGUOUS)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    kind = h5py.h5t.py_create(dtype.newbyteorder("<"), logical=True)
    made = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple(shape), creation, links)
    return h5py.Dataset(made)
