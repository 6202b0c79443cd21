"""What one import keeps for the next: dictionaries and scales, in a JSON file."""
import json
import math

from ..dataset.encodings import is_category
from ..dataset.files import write_text

from .problems import ImportProblem
from .vocabulary import Vocabulary


class State:
    def __init__(self, dictionaries=None, scales=None):
        self.dictionaries = dictionaries or {}  # values in the order of their ids, from id 1 on, by feature or table
        self.scales = scales or {}  # mean and deviation by dense column


def load_state(path):
    try:
        with open(path, encoding="utf-8") as file:
            tree = json.load(file)
        if tree["format"] != "dlrm-import" or tree["version"] != 1:
            raise ValueError
        for name, values in tree["dictionaries"].items():
            if not isinstance(values, list) or not all(map(is_category, values)) or len(set(values)) < len(values):
                raise ImportProblem(f"{path}: the dictionary of {name} is no list of different values")
        scales = {name: (float(mean), float(deviation)) for name, (mean, deviation) in tree["scales"].items()}
        for name, (mean, deviation) in scales.items():
            if not (math.isfinite(mean) and math.isfinite(deviation) and deviation > 0):
                raise ImportProblem(f"{path}: the mean or the deviation of {name} is no finite number, or the latter not "
                                    "above 0")
        return State(tree["dictionaries"], scales)
    except OSError as error:
        raise ImportProblem(f"{path}: cannot read: {error.strerror}") from None
    except ImportProblem:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ImportProblem(f"{path}: is not a file that --dictionary wrote") from None


def save_state(path, state, schema, encodings):
    """Writes what was known, and what this import added."""
    dictionaries = dict(state.dictionaries)
    for feature in schema.sparse:
        encoding = encodings[feature.name]
        if isinstance(encoding, Vocabulary):
            dictionaries[feature.table or feature.name] = encoding.values()
    tree = {"format": "dlrm-import", "version": 1, "scales": state.scales, "dictionaries": dictionaries}
    write_text(path, lambda file: json.dump(tree, file, ensure_ascii=False))


def check_frozen(path, state, schema):
    """A frozen import needs all that it uses."""
    for feature in schema.sparse:
        name = feature.table or feature.name
        if feature.encoding == "dictionary" and name not in state.dictionaries:
            raise ImportProblem(f"{path}: has no dictionary of {name}, and --frozen-dictionary makes none")
    for dense in schema.dense:
        if dense.standardise and dense.column not in state.scales:
            raise ImportProblem(f"{path}: has no mean of {dense.column}, and --frozen-dictionary takes none")
