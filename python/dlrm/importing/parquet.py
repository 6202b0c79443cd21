"""Records of Parquet files, in batches."""
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from .columns import Bad
from .problems import ImportProblem
from .values import bad_positions, usual, without

BATCH = 32768  # records


class ParquetFile:
    def __init__(self, path, wanted, threads=1):
        self.path, self.threads = path, threads
        try:
            self.file = pa.parquet.ParquetFile(path)
            names = self.file.schema_arrow.names
            coded = coded_columns(self.file, wanted or {})
            if coded:
                self.file = pa.parquet.ParquetFile(path, read_dictionary=coded)
            self.bytes = os.path.getsize(path)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise ImportProblem(f"{path}: not a Parquet file, or a damaged one: {short(error)}") from None
        self.names = names
        absent = [name for name in (wanted or ()) if name not in names]
        if absent:
            raise ImportProblem(f"{path}: there is no column {absent[0]}; there are {', '.join(names[:50])}")
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ImportProblem(f"{path}: there are two columns {twice[0]!r:.60}")
        self.wanted = list(wanted or names)

    def __iter__(self):
        return self.chunks(0, None)

    def group_rows(self):
        """The records of each row group."""
        return [self.file.metadata.row_group(group).num_rows for group in range(self.file.metadata.num_row_groups)]

    def chunks(self, first, groups):
        """The records of these row groups, None: of all. `first` is the number of their first record."""
        try:
            for batch in self.file.iter_batches(BATCH, groups, self.wanted, use_threads=self.threads > 1):
                check_indices(batch)
                yield ParquetChunk(self, batch, first)
                first += batch.num_rows
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise ImportProblem(f"{self.path}: cannot read after record {first}: {short(error)}") from None


def coded_columns(file, wanted):
    """The columns of texts that the file has as codes. They are read as such, so that a text is looked up once and
    not once a record. Arrow cannot do so for lists of texts."""
    found = []
    if file.metadata.num_row_groups == 0:
        return found
    for index in range(file.metadata.num_columns):
        part = file.metadata.row_group(0).column(index)
        name = part.path_in_schema
        if name in wanted and pa.types.is_dictionary(wanted[name]) and part.has_dictionary_page:
            if pa.types.is_string(file.schema_arrow.field(name).type):
                found.append(name)
    return found


def check_indices(batch):
    """In a damaged file an index may have no value. Arrow does not look."""
    for name, array in zip(batch.schema.names, batch.columns):
        if pa.types.is_dictionary(array.type):
            extremes = pc.min_max(array.indices)
            least, most = extremes["min"].as_py(), extremes["max"].as_py()
            if least is not None and not 0 <= least <= most < len(array.dictionary):
                raise pa.ArrowInvalid(f"column {name} has an index without a value")


def check_texts(array):
    """Raises ArrowInvalid if a text is not UTF-8. validate() of a part of an array of lists takes all items, also those
    of other lists."""
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        array = array.flatten()
    array.validate(full=True)


def short(error):
    return " ".join(str(error).split())[:200]


class ParquetChunk:
    def __init__(self, file, batch, first):
        self.file, self.batch, self.first = file, batch, first

    def where(self, record):
        return f"{self.file.path}, record {record}"

    def fast(self):
        arrays = {name: usual(self.batch.column(name)) for name in self.file.wanted}
        for array in arrays.values():
            array.validate(full=True)  # that texts are UTF-8
        return arrays, self.batch.num_rows

    def slow(self):
        """The same arrays, without texts that are not UTF-8, which Parquet does not promise."""
        arrays, bad = {}, []
        for name in self.file.wanted:
            array = usual(self.batch.column(name))
            if pa.types.is_dictionary(array.type):
                array = array.cast(pa.string())
            wrong = bad_positions(array, check_texts)
            bad += [Bad(self.first + int(row), name, None, "the text is not UTF-8") for row in wrong]
            arrays[name] = without(array, wrong) if wrong.size else array
        return arrays, self.first + np.arange(self.batch.num_rows), bad
