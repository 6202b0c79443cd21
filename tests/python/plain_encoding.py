"""What an import makes of texts, value by value, by the rules of docs/import.md: the reference of tests."""
import math
import zlib

from dlrm.dataset.keys import canonical_text

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "\\N")


def mix64(key):
    """The finaliser of SplitMix64, as docs/file-formats.md gives it."""
    bits = (1 << 64) - 1
    key = (key + 0x9e3779b97f4a7c15) & bits
    key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9 & bits
    key = (key ^ key >> 27) * 0x94d049bb133111eb & bits
    return key ^ key >> 31


def number(column, text):
    """A number of the dense part, as float64."""
    text = text.strip()
    value = column["fill"] if text in MISSING else float(text)
    least, most = column.get("clip", (-math.inf, math.inf))
    value = min(max(value, least), most)
    return math.log1p(max(value, 0)) if column.get("log") else value


def key_of(feature, text, in_list=False):
    """What has one id: a text, or a number."""
    values = "integer" if "integers" in feature else feature.get("values", "text")
    if values == "integer":
        text = text.strip()
        return feature["fill"] if text in MISSING else int(canonical_text(text))
    if values == "hex":
        return int(text, 16) if text else 1 << 32
    text = canonical_text(text)
    return feature["fill"] if text == "" and "fill" in feature and not in_list else text


def keys_of(feature, text):
    if "list" not in feature:
        return [key_of(feature, text)]
    items = [item for item in text.split(feature["list"]["separator"]) if item.strip()]
    cap = feature["list"].get("cap", len(items))
    kept = items[-cap:] if feature["list"].get("keep") == "last" and cap < len(items) else items[:cap]
    return [key_of(feature, item, True) for item in kept]


class Encoding:
    """Of a schema. Dictionaries grow, and `counts` has how often each value was there."""

    def __init__(self, schema):
        self.dense = schema.get("dense", [])
        self.sparse = [{"column": feature} if isinstance(feature, str) else feature for feature in schema["sparse"]]
        self.dictionaries = {}

    def dictionary(self, feature):
        return self.dictionaries.setdefault(feature.get("table", feature.get("name", feature["column"])), {})

    def encode(self, records):
        """Numbers, and lists of ids by feature, of records that are dictionaries of texts."""
        keys = [[keys_of(feature, record[feature["column"]]) for feature in self.sparse] for record in records]
        self.learn(keys)
        dense = [[number(column, record[column["column"]]) for column in self.dense] for record in records]
        return dense, {feature.get("name", feature["column"]): [[self.id_of(feature, key) for key in row[index]] for row in keys]
                       for index, feature in enumerate(self.sparse)}

    def learn(self, keys):
        """New values get ids by their first appearance, a feature at a time in a chunk of records."""
        for index, feature in enumerate(self.sparse):
            if "hash" in feature or "integers" in feature:
                continue
            known = self.dictionary(feature)
            for row in keys:
                for key in row[index]:
                    known.setdefault(key, len(known) + 1)

    def id_of(self, feature, key):
        if "hash" in feature:
            return mix64(zlib.crc32(key.encode()) if isinstance(key, str) else key % (1 << 64)) % feature["hash"]
        return key if "integers" in feature else self.dictionary(feature)[key]
