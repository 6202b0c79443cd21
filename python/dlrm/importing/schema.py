"""The schema of an import: a YAML file that names columns and says what becomes of them (docs/import.md)."""
import datetime
import re
from dataclasses import dataclass, field

import yaml

from ..dataset.encodings import LARGEST_HASH
from ..dataset.writer import NAME

from ..dataset.keys import canonical_text

from .problems import ImportProblem
from .yaml_text import as_flag, as_number, load, shown

KINDS = ("csv", "tsv", "parquet", "json")
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "\\N"]  # as a number
MOST_TASKS = 64  # of a config


@dataclass
class Format:
    type: str = None  # None: by the files' names
    delimiter: str = None
    quote: str = None
    header: bool = True
    columns: list = None
    missing: list = field(default_factory=lambda: list(MISSING))


@dataclass
class Label:
    column: str
    task: str = None  # its name, if there are several labels
    above: float = None
    positive: list = None
    soft: bool = False


@dataclass
class Dense:
    column: str
    fill: float = None
    clip: tuple = None
    log: bool = False
    standardise: bool = False


@dataclass
class Bag:
    separator: str = None
    cap: int = None
    keep: str = "first"


@dataclass
class Sparse:
    column: str
    name: str = None
    encoding: str = "dictionary"
    values: str = "text"
    rows: int = None
    threshold: int = 1
    fill: object = None
    list: Bag = None
    table: str = None


@dataclass
class Weight:
    column: str
    fill: float = None


@dataclass
class Timestamp:
    column: str
    format: str = None


@dataclass
class Split:
    by: str  # fraction, hash, time
    fraction: float = None
    column: str = None
    time: float = None


@dataclass
class Schema:
    path: str
    format: Format
    labels: list  # without --unlabelled one or several
    tasks: list  # names of several labels, or None
    dense: list
    sparse: list
    timestamp: Timestamp = None
    split: Split = None
    weight: Weight = None

    def columns(self):
        """The columns of the inputs that are used, once each."""
        used = [label.column for label in self.labels] + [d.column for d in self.dense] + [s.column for s in self.sparse]
        used += [part.column for part in (self.timestamp, self.split, self.weight) if part is not None and part.column]
        return list(dict.fromkeys(used))


def read_schema(path, labelled=True):
    return Reader(path, labelled).schema(load(path))


class Reader:
    """Turns the YAML tree into a Schema. Every error names file and key."""

    def __init__(self, path, labelled=True):
        self.path, self.labelled = path, labelled

    def wrong(self, key, what):
        return ImportProblem(f"{self.path}: {key}: {what}" if key else f"{self.path}: {what}")

    def schema(self, tree):
        t = self.mapping("", tree, "format", "label", "dense", "sparse", "timestamp", "split", "weight")
        if "label" not in t and self.labelled:
            raise self.wrong("label", "is missing; name the column of the label, or give --unlabelled for records "
                             "without one")
        several = isinstance(t.get("label"), list)
        labels = self.tasks(t["label"]) if several else [self.label("label", t["label"])] if self.labelled else []
        result = Schema(self.path, self.format(t.get("format")), labels if self.labelled else [],
                        [label.task for label in labels] if several else None,
                        [self.dense(f"dense[{i}]", entry) for i, entry in enumerate(self.entries("dense", t))],
                        [self.sparse(f"sparse[{i}]", entry) for i, entry in enumerate(self.entries("sparse", t))])
        if t.get("timestamp") is not None:
            result.timestamp = self.timestamp(t["timestamp"])
        if t.get("split") is not None:
            result.split = self.split(t["split"], result.timestamp)
        if t.get("weight") is not None:
            result.weight = self.weight(t["weight"])
        self.check_columns(result)
        return result

    def check_columns(self, schema):
        seen = set()
        for i, feature in enumerate(schema.sparse):
            if feature.name in seen:
                raise self.wrong(f"sparse[{i}]", f"the name {feature.name} is taken; give another `name`")
            seen.add(feature.name)
        columns = [dense.column for dense in schema.dense if dense.standardise]
        for i, dense in enumerate(schema.dense):
            if dense.standardise and columns.count(dense.column) > 1:
                raise self.wrong(f"dense[{i}]", f"{dense.column} is standardised twice, and an import keeps one mean of "
                                 "a column")
        tables = {}
        for i, feature in enumerate(schema.sparse):
            if feature.table is None:
                continue
            first = tables.setdefault(feature.table, feature)
            for key in ("encoding", "rows", "threshold", "values"):
                if getattr(first, key) != getattr(feature, key):
                    raise self.wrong(f"sparse[{i}]", f"shares the table {feature.table} with {first.name}, so both "
                                     "need the same encoding and `values`")

    def format(self, tree):
        if tree is None:
            return Format()
        if isinstance(tree, str):
            tree = {"type": tree}
        t = self.mapping("format", tree, "type", "delimiter", "quote", "header", "columns", "missing")
        result = Format(**t)
        if "type" in t:
            self.choice("format.type", result.type, KINDS)
        for key in ("delimiter", "quote"):
            value = t.get(key)
            if value is not None and not (isinstance(value, str) and value.isascii() and
                                          (len(value) == 1 or key == "quote" and value == "") and
                                          value not in "\r\n" + ("" if value == "" else "\0")):
                raise self.wrong(f"format.{key}", f"{shown(value)} is not a single ASCII character")
        result.header = self.flag("format.header", result.header)
        for key in ("columns", "missing"):
            value = t.get(key)
            if value is not None and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
                raise self.wrong(f"format.{key}", "is not a list of texts")
        if result.columns is not None and (not result.columns or len(set(result.columns)) < len(result.columns)):
            raise self.wrong("format.columns", "is empty, or names a column twice")
        if not result.header and result.columns is None:
            raise self.wrong("format.columns", "is missing; files without a header need it")
        return result

    def tasks(self, trees):
        if not 2 <= len(trees) <= MOST_TASKS:
            raise self.wrong("label", f"is a list of {len(trees)}; a list has 2 to {MOST_TASKS} labels, and a single "
                             "one is no list")
        labels = [self.label(f"label[{i}]", tree, "task") for i, tree in enumerate(trees)]
        for i, label in enumerate(labels):
            if label.task is None:
                label.task = plain_name(label.column)
            self.name(f"label[{i}].task", label.task, "`task`")
            if label.task in (other.task for other in labels[:i]):
                raise self.wrong(f"label[{i}]", f"the name {label.task} is taken; give another `task`")
        return labels

    def label(self, key, tree, *more):
        t = self.column(key, tree, "above", "positive", "soft", *more)
        result = Label(**t)
        if sum(kind in t for kind in ("above", "positive", "soft")) > 1:
            raise self.wrong(key, "`above`, `positive` and `soft` exclude each other")
        if "above" in t:
            result.above = self.number(f"{key}.above", result.above)
        if "positive" in t:
            values = result.positive if isinstance(result.positive, list) else [result.positive]
            if not values or not all(isinstance(value, str) for value in values):
                raise self.wrong(f"{key}.positive", "is not a text or a list of texts")
            result.positive = [canonical_text(str(value)) for value in values]
            # A boolean of Parquet and JSON is the text true.
            result.positive += [value.lower() for value in values if value.lower() in ("true", "false")]
        result.soft = self.flag(f"{key}.soft", result.soft)
        return result

    def dense(self, key, tree):
        t = self.column(key, tree, "fill", "clip", "log", "standardise")
        result = Dense(**t)
        if "fill" in t:
            result.fill = self.number(f"{key}.fill", result.fill)
        if "clip" in t:
            limits = result.clip
            if not isinstance(limits, list) or len(limits) != 2:
                raise self.wrong(f"{key}.clip", "is not a list of two numbers: [least, most]")
            result.clip = tuple(self.number(f"{key}.clip", limit) for limit in limits)
            if result.clip[0] > result.clip[1]:
                raise self.wrong(f"{key}.clip", "the first number is the larger one")
        result.log = self.flag(f"{key}.log", result.log)
        result.standardise = self.flag(f"{key}.standardise", result.standardise)
        return result

    def sparse(self, key, tree):
        t = self.column(key, tree, "name", "dictionary", "hash", "integers", "values", "fill", "list", "table")
        ways = [way for way in ("dictionary", "hash", "integers") if way in t]
        if len(ways) > 1:
            raise self.wrong(key, f"`{ways[0]}` and `{ways[1]}` exclude each other")
        way = ways[0] if ways else "dictionary"
        result = Sparse(t["column"], encoding=way, values="integer" if way == "integers" else "text")
        result.name = self.name(f"{key}.name", t.get("name", plain_name(result.column)))
        if "table" in t:
            result.table = self.name(f"{key}.table", t["table"])
        if way == "hash":
            result.rows = self.whole(f"{key}.hash", t["hash"], LARGEST_HASH)
        elif way == "integers" and t["integers"] is not None:
            result.rows = self.whole(f"{key}.integers", t["integers"], (1 << 63) - 1)
        elif way == "dictionary" and t.get("dictionary") is not None:
            options = self.mapping(f"{key}.dictionary", t["dictionary"], "threshold")
            result.threshold = self.whole(f"{key}.dictionary.threshold", options.get("threshold", 1), 1 << 62)
        if "values" in t:
            self.choice(f"{key}.values", t["values"], ("integer",) if way == "integers" else
                        ("text", "integer", "hex"))
            result.values = t["values"]
        if t.get("fill") is not None:
            result.fill = self.fill(f"{key}.fill", t["fill"], result)
        bag = as_flag(t.get("list"))
        if bag not in (None, False):
            result.list = self.bag(f"{key}.list", bag)
        return result

    def fill(self, key, value, feature):
        if not isinstance(value, str):
            raise self.wrong(key, f"{shown(value)} is neither a text nor a whole number")
        if feature.values != "integer":
            return canonical_text(str(value))
        number = as_number(value)
        if not isinstance(number, int) or not -(1 << 63) <= number < 1 << 63:
            raise self.wrong(key, f"{shown(value)} is not a whole number of 64 bits")
        return number

    def bag(self, key, tree):
        t = {} if tree is True else self.mapping(key, tree, "separator", "cap", "keep")
        result = Bag(**t)
        if result.separator is not None and not (isinstance(result.separator, str) and result.separator):
            raise self.wrong(f"{key}.separator", "is not a text")
        if result.cap is not None:
            result.cap = self.whole(f"{key}.cap", result.cap, 1 << 31)
        self.choice(f"{key}.keep", result.keep, ("first", "last"))
        return result

    def weight(self, tree):
        t = self.column("weight", tree, "fill")
        result = Weight(**t)
        if "fill" in t:
            result.fill = self.number("weight.fill", result.fill)
            if result.fill < 0:
                raise self.wrong("weight.fill", f"{result.fill:g} is less than 0")
        return result

    def timestamp(self, tree):
        t = self.column("timestamp", tree, "format")
        if t.get("format") is not None and not isinstance(t["format"], str):
            raise self.wrong("timestamp.format", "is not a text")
        form = (t.get("format") or "").replace("%%", "")
        if "%Z" in form:
            raise self.wrong("timestamp.format", "%Z is not read, as names of time zones are ambiguous; %z reads +0100")
        week = re.search("%[GgV]", form)
        if week:  # strptime passes over it: every time would be in 1900
            raise self.wrong("timestamp.format", f"{week[0]} is not read; %Y with %m and %d, %j, or %U and %w say a day")
        return Timestamp(**t)

    def split(self, tree, timestamp):
        t = self.mapping("split", tree, "fraction", "hash", "time")
        fraction = t.get("fraction")
        if fraction is not None:
            fraction = self.number("split.fraction", fraction)
            if not 0 < fraction < 1:
                raise self.wrong("split.fraction", f"{fraction} is not between 0 and 1")
        if "time" in t:
            if fraction is not None or "hash" in t:
                raise self.wrong("split", "`time` stands alone: later samples are the test set")
            if timestamp is None:
                raise self.wrong("split.time", "needs a `timestamp`")
            return Split("time", time=self.instant("split.time", t["time"]))
        if fraction is None:
            raise self.wrong("split.fraction", "is missing: the share of the test set")
        if "hash" in t:
            if not isinstance(t["hash"], str):
                raise self.wrong("split.hash", f"{shown(t['hash'])} is not the name of a column")
            return Split("hash", fraction=fraction, column=t["hash"])
        return Split("fraction", fraction=fraction)

    def instant(self, key, value):
        """Seconds since 1970 in UTC."""
        number = as_number(value)
        if isinstance(number, (int, float)) and abs(number) < 1e15:
            return float(number)
        text = value
        try:
            try:
                value = datetime.datetime.fromisoformat(text)
            except ValueError:  # 2024-1-31 0:00:00 +1 is a time of YAML
                node = yaml.ScalarNode("tag:yaml.org,2002:timestamp", str(text))
                value = yaml.constructor.SafeConstructor().construct_yaml_timestamp(node)
            if not isinstance(value, datetime.datetime):
                value = datetime.datetime(value.year, value.month, value.day)
        except (ValueError, AttributeError, TypeError):
            raise self.wrong(key, f"{shown(text)} is not a time, as 2024-01-31T12:00:00") from None
        return (value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)).timestamp()

    def column(self, key, tree, *allowed):
        if isinstance(tree, str):
            tree = {"column": tree}
        t = self.mapping(key, tree, "column", *allowed)
        if not isinstance(t.get("column"), str) or not t["column"]:
            raise self.wrong(key, "names no `column`")
        return t

    def mapping(self, key, tree, *allowed):
        if not isinstance(tree, dict):
            raise self.wrong(key, f"is not a mapping of {', '.join(allowed)}")
        for name in tree:
            if name not in allowed:
                raise self.wrong(f"{key}.{name}" if key else str(name), f"is unknown; there are {', '.join(allowed)}")
        return dict(tree)

    def entries(self, key, tree):
        value = tree.get(key)
        if value is not None and not isinstance(value, list):
            raise self.wrong(key, "is not a list")
        return value or []

    def number(self, key, value):
        number = as_number(value)
        if not isinstance(number, (int, float)) or not abs(number) <= 3e38:
            raise self.wrong(key, f"{shown(value)} is not a finite number")
        return float(number)

    def whole(self, key, value, most):
        number = as_number(value)
        if isinstance(number, float) and number.is_integer():  # 1e6
            number = int(number)
        if not isinstance(number, int) or not 1 <= number <= most:
            raise self.wrong(key, f"{shown(value)} is not a whole number from 1 to {most}")
        return number

    def flag(self, key, value):
        flag = as_flag(value)
        if not isinstance(flag, bool):
            raise self.wrong(key, f"{shown(value)} is neither true nor false")
        return flag

    def choice(self, key, value, choices):
        if value not in choices:
            raise self.wrong(key, f"{shown(value)} is none of {', '.join(choices)}")

    def name(self, key, value, given_by="`name`"):
        if not isinstance(value, str) or not NAME.fullmatch(value):
            raise self.wrong(key, f"{shown(value)} is not a name of letters, digits, _ - . (not first), at most 200; give a "
                             f"{given_by}")
        return value


def plain_name(column):
    return re.sub("[^A-Za-z0-9_.-]", "_", column)
