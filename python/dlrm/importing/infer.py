"""Writes a schema to start from, by the first records of a file."""
import json
import re

import pyarrow as pa
import pyarrow.compute as pc

from ..dataset.writer import NAME

from .problems import ImportProblem
from .schema import MISSING
from .values import is_bytes, is_list, is_text, plain

LABELS = ("label", "click", "clicked", "is_click", "target", "y", "conversion", "converted", "purchase", "install")
WEIGHTS = ("weight", "sample_weight", "example_weight", "importance_weight")
IDENTIFIER = re.compile(r"(^|_|[a-z])(id|ids|user|item|code|zip|hash|key)$|Id$|ID$", re.ASCII)
TIME = re.compile(r"time|date|_at$|^ts$", re.IGNORECASE)
ISO = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?$"
USABLE = (is_text, is_bytes, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal,
          pa.types.is_timestamp, pa.types.is_date, pa.types.is_time, pa.types.is_null)
SEPARATORS = "|;, "
MANY = 10000  # different values in the sample: hashed


class Column:
    """What the first records tell of a column."""

    def __init__(self, name, array):
        array = plain(array)
        self.name, self.kind = name, array.type
        self.records = len(array)
        self.list = is_list(array.type)
        self.time = pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)
        self.numbers = None
        if self.list:
            array = array.flatten()
        if is_text(array.type):
            array = array.filter(pc.invert(pc.is_in(pc.utf8_trim_whitespace(array), value_set=pa.array(MISSING))))
        if pa.types.is_floating(array.type):
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        present = array.drop_null()
        self.missing = 1 - len(present) / max(len(array) if self.list else self.records, 1)
        self.values = present
        self.different = len(present.unique())
        self.numbers = None if self.time else as_numbers(present)
        self.whole = self.numbers is not None and pc.all(pc.equal(pc.floor(self.numbers), self.numbers)).as_py()

    def binary(self):
        return self.different == 2 and self.numbers is not None and set(self.numbers.unique().to_pylist()) == {0, 1}

    def is_weight(self):
        if self.name.lower() not in WEIGHTS or self.numbers is None or self.list:
            return False
        return pc.all(pc.and_(pc.is_finite(self.numbers), pc.greater_equal(self.numbers, 0))).as_py()

    def is_time(self):
        if self.time:
            return True
        if self.list or len(self.values) == 0:
            return False
        if self.numbers is not None:
            least = pc.min(self.numbers).as_py()
            return bool(TIME.search(self.name)) and self.whole and 5e8 < least < 5e9
        return is_text(self.values.type) and pc.all(pc.match_substring_regex(self.values, ISO)).as_py()

    def separator(self):
        """What cuts the texts into items that occur again and again."""
        if self.list or self.numbers is not None or not is_text(self.values.type) or len(self.values) == 0:
            return None
        for separator in SEPARATORS:
            items = pc.split_pattern(self.values, separator)
            lengths = pc.list_value_length(items)
            if pc.mean(lengths).as_py() >= 1.3 and pc.max(lengths).as_py() >= 3:
                if len(items.flatten().unique()) <= self.different:
                    return separator
        return None

    def note(self):
        examples = ", ".join(repr(str(value)[:20]) for value in self.values.unique()[:3].to_pylist())
        missing = f", {100 * self.missing:.2g} % missing" if self.missing > 0 else ""
        return f"# {self.different} different{missing}: {examples}"

    def encoding(self):
        return ", hash: 1000000" if self.different > MANY else ""


def as_numbers(array):
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    try:
        if is_text(array.type):
            array = pc.utf8_trim_whitespace(array)
        return array.cast(pa.float64(), safe=False) if len(array) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def usable(kind):
    """Whether a schema can use a column of this type."""
    if is_list(kind):
        return not is_list(kind.value_type) and usable(kind.value_type)
    return any(is_it(kind) for is_it in USABLE)


def schema_text(kind, delimiter, path, arrays):
    """The schema of columns, as text with a comment on each."""
    arrays = {name: plain(array) for name, array in arrays.items()}
    columns = [Column(name, array) for name, array in arrays.items() if name and usable(array.type)]
    if not columns:
        raise ImportProblem(f"{path}: no column has a type that an import takes")
    label = choose_label(path, columns)
    form = kind if delimiter is None else f"{{type: {kind}, delimiter: {json.dumps(delimiter)}}}"
    shown = "".join(c if c.isprintable() else "?" for c in path)
    lines = [f"# Inferred from the first {columns[0].records} records of {shown}. Look through it before use.",
             f"format: {form}", f"label: {entry(label)}  {label.note()}"]
    dense, sparse, times, weights = [], [], [], []
    left = [f"# left out: {json.dumps(name)} has the type {' '.join(str(array.type).split())[:100]}"
            for name, array in arrays.items() if not usable(array.type)]
    left += ["# left out: a column has no name"] if "" in arrays else []
    for column in columns:
        if column is label:
            continue
        if len(column.values) == 0:
            left.append(f"# left out: {json.dumps(column.name)} has no values")
        elif column.is_time():
            times.append(column)
        elif column.is_weight() and not weights:
            weights.append(column)
        elif column.list or column.separator() is not None:
            sparse.append((column, sparse_line(column)))
        elif column.numbers is not None and not (column.whole and IDENTIFIER.search(column.name)):
            dense.append((column, dense_line(column)))
        else:
            sparse.append((column, sparse_line(column)))
    for name, entries in (("dense", dense), ("sparse", sparse)):
        if entries:
            lines.append(f"{name}:")
            lines += [f"  - {line}  {column.note()}" for column, line in entries]
    if times:
        seconds = "" if times[0].numbers is None else ", format: seconds"
        lines.append(f"timestamp: {{column: {entry(times[0])}{seconds}}}  {times[0].note()}")
    for column in weights:
        lines.append(f"weight: {{column: {entry(column)}, fill: 1}}  {column.note()}")
    lines.append("# split: {fraction: 0.1}  # the last records, for --test-output")
    return "\n".join(lines + left) + "\n"


def choose_label(path, columns):
    binary = [column for column in columns if column.binary()]
    binary = [column for column in binary if column.missing == 0] or binary
    named = [column for column in binary if column.name.lower() in LABELS]
    if not binary:
        raise ImportProblem(f"{path}: no column has 0 and 1, which a label has; write the schema by hand")
    return (named or binary)[0]


def entry(column):
    name = json.dumps(column.name, ensure_ascii=not column.name.isprintable())  # YAML has no control characters
    return name[1:-1] if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", column.name) and column.name.lower() not in (
        "y", "n", "yes", "no", "on", "off", "true", "false", "null") else name


def dense_line(column):
    least, most = pc.min(column.numbers).as_py(), pc.max(column.numbers).as_py()
    more = ", fill: 0"  # a later record may have none
    if least >= 0 and most > 50:
        more += ", log: true"
    return f"{{column: {entry(column)}{more}}}"


def sparse_line(column):
    separator = column.separator()
    more = "" if re.fullmatch(NAME, re.sub("[^A-Za-z0-9_.-]", "_", column.name)) else ", name: feature"
    more += column.encoding()
    if column.list:
        more += ", list: {cap: 50}"
    elif separator is not None:
        more += f", list: {{separator: {json.dumps(separator)}, cap: 50}}"
    return f"{{column: {entry(column)}{more}}}" if more else entry(column)
