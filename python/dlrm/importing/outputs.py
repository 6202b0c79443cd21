"""The dataset files that an import writes."""
import numpy as np

from ..dataset import Bags, Writer

from .preprocessing import preprocessing_bytes
from .problems import ImportProblem
from .vocabulary import Given, Vocabulary

LABEL, DENSE, WEIGHT = " label", " dense", " weight"  # no feature can have these names


def make_encodings(schema, known, frozen, path):
    """By feature. Features that share a table share it. `known` has the values of dictionaries by their name, which are
    from `path`."""
    by_table, result = {}, {}
    for feature in schema.sparse:
        name = feature.table or feature.name
        if feature.encoding != "dictionary":
            result[feature.name] = Given(feature.rows)
            continue
        if name not in by_table:
            try:
                by_table[name] = Vocabulary(feature.threshold, known.get(name, ()), frozen, feature.values == "text")
            except TypeError:
                needed = "texts" if feature.values == "text" else "integers"
                raise ImportProblem(f"{path}: the dictionary of {name} has other values than {needed}, which the schema "
                                    "makes of the column") from None
        result[feature.name] = by_table[name]
    return result


class Outputs:
    """One file, or one of training and one of test samples."""

    def __init__(self, schema, encodings, output, test_output, scales):
        self.schema, self.encodings, self.path, self.scales = schema, encodings, output, scales
        self.made = None  # the preprocessing
        self.ranges = {}  # least and largest by feature and by label
        self.labels = [LABEL] if schema.tasks is None else [f"{LABEL} {task}" for task in schema.tasks]
        label = LABEL if schema.tasks is None else self.labels
        dense = [DENSE] if schema.dense else []
        weight = WEIGHT if schema.weight is not None else None
        self.train = Writer(output, label, dense, encodings, weight)
        try:
            self.test = Writer(test_output, label, dense, encodings, weight) if test_output else None
        except BaseException:
            self.train.close()
            raise

    def append(self, converted):
        ids = [self.encodings[feature.name].ids_of(coded, feature.name)
               for feature, coded in zip(self.schema.sparse, converted.sparse)]
        for name, values in zip(self.labels, columns(converted.label)):
            self.notice(name, values[~np.isnan(values)])
        for feature, numbers in zip(self.schema.sparse, ids):
            self.notice(feature.name, numbers)
        if converted.test is None:
            self.store(self.train, converted, ids, slice(None))
            return
        for writer, chosen in ((self.train, ~converted.test), (self.test, converted.test)):
            self.store(writer, converted, ids, np.flatnonzero(chosen))

    def notice(self, name, values):
        if len(values):
            least, most = self.ranges.get(name, (np.inf, -np.inf))
            self.ranges[name] = min(least, values.min()), max(most, values.max())

    def warnings(self):
        """What is likely to be a mistake."""
        if self.train.samples + (self.test.samples if self.test else 0) < 2:
            return
        constant = {name for name, (least, most) in self.ranges.items() if least == most}
        for name, label in zip(self.labels, self.schema.labels):
            if name in constant or name not in self.ranges:
                value = f"{self.ranges[name][0]:g}" if name in constant else "missing"
                yield f"column {label.column}: every label is {value}: is the schema's `label` right?"
        for feature in self.schema.sparse:
            unknown, total = getattr(self.encodings[feature.name], "unknown", {}).get(feature.name, (0, 0))
            if 2 * unknown > total:
                yield (f"column {feature.column}: {unknown} of {total} values are not in the dictionary of "
                       f"{feature.table or feature.name}, and got id 0")
            elif feature.name in constant:
                yield f"column {feature.column}: every value has the id {self.ranges[feature.name][0]}"

    def store(self, writer, converted, ids, chosen):
        chunk = dict(zip(self.labels, columns(converted.label[chosen])))
        chunk[DENSE] = converted.dense[chosen]
        if converted.weight is not None:
            chunk[WEIGHT] = converted.weight[chosen]
        for feature, coded, numbers in zip(self.schema.sparse, converted.sparse, ids):
            chunk[feature.name] = (numbers[chosen] if coded.offsets is None else
                                   chosen_bags(numbers, coded.offsets, chosen))
        writer.append(chunk)

    def finish(self):
        """Completes the files, but for their names. Returns the samples of training and of test."""
        split = self.schema.split
        total = self.train.samples + (self.test.samples if self.test else 0)
        if split is not None and split.by == "fraction":
            self.train.move_last(int(np.floor(total * split.fraction + 0.5)), self.test)
        counts = self.train.samples, self.test.samples if self.test else 0
        if self.test and 0 in counts:
            raise ImportProblem(f"{self.path}: the split of {total} records leaves nothing to "
                                f"{'train on' if counts[0] == 0 else 'test with'}")
        self.writers = [self.train, self.test] if self.test else [self.train]
        for writer in self.writers:
            writer.preprocessing = self.preprocessing
            writer.prepare()
        return counts

    def preprocessing(self):
        """Of all files, once the dictionaries are final."""
        if self.made is None:
            self.made = preprocessing_bytes(self.schema, self.scales, self.encodings)
        return self.made

    def commit(self):
        """Gives the files their names."""
        for writer in self.writers:
            writer.commit()

    def close(self):
        self.train.close()
        if self.test:
            self.test.close()


def columns(labels):
    return [labels] if labels.ndim == 1 else labels.T


def chosen_bags(ids, offsets, chosen):
    if isinstance(chosen, slice):
        return Bags(ids, offsets)
    lengths = np.diff(offsets)[chosen]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.repeat(offsets[:-1][chosen] - new[:-1], lengths) + np.arange(new[-1])
    return Bags(ids[places], new)
