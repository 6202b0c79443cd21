"""Records of delimited text: chunks of whole lines, parsed by Arrow. Lines with a mistake are found by csv."""
import csv

import numpy as np
import pyarrow as pa
import pyarrow.csv

from . import native
from .columns import Bad
from .problems import ImportProblem

CHUNK = 2 << 20  # bytes of text
LONGEST = 64 << 20  # bytes of a line
csv.field_size_limit(LONGEST)


class Lines:
    """Cuts a stream of bytes into chunks of whole lines."""

    def __init__(self, path, stream):
        self.path, self.stream = path, stream
        self.rest, self.line, self.bytes, self.ended = b"", 1, 0, False

    def fill(self, part):
        """Reads into a memoryview. Returns the bytes, which are fewer only at the end."""
        held = 0
        try:
            while held < len(part):  # a compressed stream may give less; chunks must not depend on that
                more = self.stream.readinto(part[held:])
                if not more:
                    break
                held += more
        except (OSError, pa.ArrowInvalid, EOFError) as error:
            raise ImportProblem(f"{self.path}: cannot read: {' '.join(str(error).split())}") from None
        self.bytes += held
        return held

    def next(self, size=CHUNK):
        """(bytearray that ends with a line's end, number of its first line, number of lines), or None."""
        held = len(self.rest)
        data = bytearray(held + size)
        data[:held], self.rest = self.rest, b""
        while not self.ended:
            with memoryview(data) as room:
                read = self.fill(room[held:])
            if read == 0:
                self.ended = True
                break
            end = data.rfind(b"\n", held, held + read) + 1
            if end > 0:
                self.rest = bytes(memoryview(data)[end:held + read])
                del data[end:]
                return self.taken(data)
            held += read
            if held > LONGEST:
                raise ImportProblem(f"{self.path}:{self.line}: the line is longer than {LONGEST >> 20} MiB")
            data += bytes(held + size - len(data))
        del data[held:]
        if data and not data.endswith(b"\n"):
            data += b"\n"
        return self.taken(data) if data else None

    def taken(self, data):
        first, lines = self.line, line_ends(data)
        self.line += lines
        return data, first, lines

    def first_line(self):
        """Takes one line."""
        found = self.next(1 << 16)
        if found is None:
            return None
        data, first, _ = found
        end = data.find(b"\n") + 1
        self.rest = bytes(data[end:]) + self.rest
        self.line = first + 1
        return data[:end]


def line_ends(data):
    return native.count_lines(np.frombuffer(data, np.uint8))


class TextFile:
    """A file of delimited text, as chunks."""

    def __init__(self, path, stream, form, delimiter, quote, wanted, hashed):
        self.path, self.form, self.wanted, self.hashed = path, form, wanted, hashed
        self.delimiter, self.quote = delimiter, quote
        self.lines = Lines(path, stream)
        self.names = form.columns
        if form.header:
            self.names = self.header()
        if wanted is None:
            self.wanted = dict.fromkeys(self.names, pa.string())
        absent = [name for name in self.wanted if name not in self.names]
        if absent:
            raise ImportProblem(f"{path}: there is no column {absent[0]}; there are {', '.join(self.names[:50])}")

    def header(self):
        line = self.lines.first_line()
        if line is None:
            raise ImportProblem(f"{self.path}: is empty; a header is needed")
        try:
            text = line.decode("utf-8-sig").rstrip("\r\n")
            names = next(self.rows([text]), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise ImportProblem(f"{self.path}:1: the header cannot be read: {error}") from None
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ImportProblem(f"{self.path}:1: the header names {twice[0]!r:.60} twice")
        if self.form.columns is not None and names != self.form.columns:
            raise ImportProblem(f"{self.path}:1: the header is not that of format.columns")
        return names

    def rows(self, lines):
        if self.quote:
            return csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote)
        return csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE)

    def __iter__(self):
        while True:
            found = self.lines.next()
            if found is None:
                return
            yield TextChunk(self, *found)

    @property
    def bytes(self):
        return self.lines.bytes


class TextChunk:
    def __init__(self, file, data, first_line, lines):
        self.file, self.data, self.first_line, self.lines = file, data, first_line, lines

    def where(self, line):
        return f"{self.file.path}:{line}"

    def fast(self):
        """Arrays by column. Raises ArrowInvalid if anything is amiss."""
        file = self.file
        arrays = native.read_csv(self.data, self.lines, file.names, file.wanted, file.hashed, file.form,
                                 file.delimiter, file.quote)
        if arrays is not None:
            return arrays, self.lines
        options = pa.csv.ConvertOptions(column_types=file.wanted, include_columns=list(file.wanted),
                                        null_values=file.form.missing, strings_can_be_null=False)
        table = pa.csv.read_csv(
            pa.BufferReader(self.data),
            pa.csv.ReadOptions(use_threads=False, block_size=len(self.data) + 1, column_names=file.names),
            pa.csv.ParseOptions(delimiter=file.delimiter, quote_char=file.quote or False), options)
        if table.num_rows != self.lines:
            raise pa.ArrowInvalid("a record is not a line")  # empty lines, or a line's end in quotes
        return {name: whole(table[name]) for name in file.wanted}, table.num_rows

    def slow(self):
        """Arrays of text by column, the line of each record, and the lines that are no records."""
        names = self.file.names
        places = [names.index(name) for name in self.file.wanted]
        rows, lines, bad = [], [], []
        for line, data in enumerate(self.data.split(b"\n")[:-1], self.first_line):
            data = data.rstrip(b"\r")
            if not data:
                continue  # as Arrow
            try:
                text = data.decode()
                reader = self.file.rows([text + "\n", "\n"])
                fields = next(reader)
            except UnicodeDecodeError:
                bad.append(Bad(line, None, data.decode(errors="replace"), "is not UTF-8"))
                continue
            except csv.Error as error:
                bad.append(Bad(line, None, text, f"cannot be read: {error}"))
                continue
            if reader.line_num > 1:
                bad.append(Bad(line, None, text, "has a quote that is not closed on the line"))
                continue
            if len(fields) != len(names):
                bad.append(Bad(line, None, None, f"{len(fields)} fields; expected {len(names)}"))
                continue
            rows.append([fields[place] for place in places])
            lines.append(line)
        columns = zip(*rows) if rows else [[]] * len(places)
        arrays = {name: pa.array(column, pa.string()) for name, column in zip(self.file.wanted, columns)}
        return arrays, np.array(lines, np.int64), bad


def whole(column):
    """A column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
