"""Records of JSON lines: chunks of whole lines, parsed by Arrow. Lines with a mistake are found by json."""
import json

import numpy as np
import pyarrow as pa
import pyarrow.json

from ..dataset.keys import canonical_text

from .columns import Bad
from .problems import ImportProblem
from .text import Lines, line_ends, whole

KEPT = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean)  # other types are read as texts


class Record(dict):
    """An object. `twice`: the keys that it has more than once."""

    def __init__(self, pairs):
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.twice = [name for name in self if names.count(name) > 1] if len(self) < len(pairs) else []


class JsonFile:
    """A file of one JSON object a line, as chunks."""

    def __init__(self, path, stream, wanted):
        self.path, self.lines = path, Lines(path, stream)
        self.first = self.lines.next()
        if self.first is None:
            raise ImportProblem(f"{path}: is empty")
        names, kinds = self.survey(self.first[0])
        absent = [name for name in (wanted or ()) if name not in names]
        if absent and names:
            raise ImportProblem(f"{path}: none of the first records has {absent[0]!r:.60}; they have "
                                f"{', '.join(names[:50])}")
        self.names = names
        self.wanted = {name: readable(kind, kinds.get(name)) for name, kind in
                       (wanted or dict.fromkeys(names, pa.string())).items()}

    def survey(self, data):
        """The names of the first records, and their types if Arrow can tell."""
        names, lines = {}, []
        for line in data.split(b"\n"):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                names.update(dict.fromkeys(record))
                lines.append(line + b"\n")
        try:
            schema = read(b"".join(lines), None).schema
            return list(names), dict(zip(schema.names, schema.types))
        except (pa.ArrowException, UnicodeDecodeError):
            return list(names), {}

    def __iter__(self):
        found = self.first
        while found is not None:
            yield JsonChunk(self, *found)
            found = self.lines.next()

    @property
    def bytes(self):
        return self.lines.bytes


def readable(kind, found):
    """The type to read a column as that is wanted as `kind` and seems to be `found`."""
    if pa.types.is_dictionary(kind):
        kind = pa.string()
    if found is None:
        return kind
    if pa.types.is_list(found):
        return found if any(is_it(found.value_type) for is_it in KEPT) else pa.list_(pa.string())
    if pa.types.is_boolean(found) or pa.types.is_string(found):
        return found
    return found if pa.types.is_string(kind) and pa.types.is_integer(found) else kind


def read(data, schema):
    """A table. Arrow crashes on some lines that are no objects, so it is not given any."""
    lines = line_ends(data)
    if not data.startswith(b"{") or data.count(b"\n{") != lines - 1:
        raise pa.ArrowInvalid("a line does not begin with {")
    options = None
    if schema is not None:
        options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    table = pa.json.read_json(pa.BufferReader(data), pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                              options)
    if table.num_rows != lines:
        raise pa.ArrowInvalid("a record is not a line")
    return table


class JsonChunk:
    def __init__(self, file, data, first_line, _):
        self.file, self.data, self.first_line = file, data, first_line

    def where(self, line):
        return f"{self.file.path}:{line}"

    def fast(self):
        wanted = self.file.wanted
        table = read(self.data, pa.schema(list(wanted.items())))
        table.validate(full=True)  # that texts are UTF-8
        return {name: whole(table[name]) for name in wanted}, table.num_rows

    def slow(self):
        """Arrays of text or of lists of text by column, the line of each record, and the lines that are none."""
        rows, lines, bad = [], [], []
        for line, data in enumerate(self.data.split(b"\n")[:-1], self.first_line):
            if not data.strip():
                continue  # as Arrow
            try:
                record = json.loads(data, object_pairs_hook=Record)
            except (ValueError, RecursionError) as error:
                bad.append(Bad(line, None, data.decode(errors="replace"), f"is not JSON: {error}"))
                continue
            if not isinstance(record, dict):
                bad.append(Bad(line, None, data.decode(errors="replace"), "is not an object"))
                continue
            twice = [name for name in record.twice if name in self.file.wanted]
            if twice:
                bad.append(Bad(line, twice[0], None, "is there twice"))
                continue
            try:
                rows.append([flat(record.get(name)) for name in self.file.wanted])
                lines.append(line)
            except (TypeError, UnicodeEncodeError):
                name = next(name for name in self.file.wanted if not is_flat(record.get(name)))
                bad.append(Bad(line, name, json.dumps(record[name]), "is no number, text or list of them"))
        columns = zip(*rows) if rows else [()] * len(self.file.wanted)
        arrays = {name: one_type(name, values, lines, bad) for name, values in zip(self.file.wanted, columns)}
        return arrays, np.array(lines, np.int64), bad


def one_type(name, values, lines, bad):
    """Texts, or lists of texts if the first value that is there is a list. Others of these two are bad."""
    listed = next((isinstance(value, list) for value in values if value is not None), False)
    good = []
    for value, line in zip(values, lines):
        if value is not None and isinstance(value, list) != listed:
            bad.append(Bad(line, name, json.dumps(value), f"is {'no' if listed else 'a'} list, unlike those before"))
            value = None
        good.append(value)
    return pa.array(good, pa.list_(pa.string()) if listed else pa.string())


def flat(value):
    """As text; TypeError for objects and nested lists, UnicodeEncodeError for what is no text."""
    if isinstance(value, list):
        if any(isinstance(item, list) for item in value):
            raise TypeError
        return [flat(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return value
    if isinstance(value, str):
        value.encode()  # not of a lone surrogate
        return value
    if isinstance(value, (int, float)):
        return None if value != value else canonical_text(value)
    raise TypeError


def is_flat(value):
    try:
        flat(value)
        return True
    except (TypeError, UnicodeEncodeError):
        return False
