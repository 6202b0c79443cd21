"""The points of dlrm-scaling, and their configs. Configs are edited as YAML nodes: every number and text that is
not replaced stays as it was written."""
import copy
import os

from ..endings import Refused, need
from ..sweep.trials import write

DATA = {"fresh": "synthetic", "replay": "replay"}  # data.source of each kind
SHARDING = ("auto", "table", "row", "column", "grid", "data_parallel")


def modules():
    need(yaml="PyYAML")
    import yaml
    return yaml


def read_config(path):
    """The root node of a config."""
    yaml = modules()
    try:
        with open(path, encoding="utf-8") as file:
            root = yaml.compose(file, yaml.SafeLoader)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    for name in ("model", "train"):
        if not isinstance(root, yaml.MappingNode) or not isinstance(child(root, name), yaml.MappingNode):
            raise Refused(f"{path}: a config has model and train")
    if not isinstance(child(child(root, "model"), "tables"), yaml.SequenceNode):
        raise Refused(f"{path}: model.tables must be a list")
    return root


def child(node, key):
    return next((value for name, value in node.value if name.value == key), None)


def remove(node, key):
    node.value = [(name, value) for name, value in node.value if name.value != key]


def put(node, key, text):
    """Sets a key to a value that is written as YAML."""
    yaml = modules()
    remove(node, key)
    node.value.append((yaml.compose(key, yaml.SafeLoader), yaml.compose(text, yaml.SafeLoader)))


def whole_number(node):
    text = getattr(node, "value", None)
    return int(text) if isinstance(text, str) and text.isdigit() and not node.style else None


class Point:
    """A run, or a prediction. `sharding` is a strategy for all tables, or None for what the config says. With
    `full_size` the config's batch has precedence over that of --batch."""

    def __init__(self, mode, data, sharding, ranks, options, root, full_size=False):
        self.mode, self.data, self.sharding, self.ranks = mode, data, sharding, ranks
        factor = ranks / options.ranks[0]
        own = whole_number(child(child(root, "train"), "global_batch_size"))
        batch = own or options.batch if full_size else options.batch or own
        if not batch:
            raise Refused(f"{options.config}: train.global_batch_size is no number: give --batch")
        self.batch = batch if mode == "strong" else round(batch * factor)
        self.rows_factor = factor if mode == "memory" else 1.0

    @property
    def name(self):
        return "_".join(str(part) for part in (self.mode, self.data, self.sharding, self.ranks) if part)

    def write(self, path, root, options, rows_scale, folder):
        """Writes the config of a run whose files go to `folder`."""
        yaml = modules()
        root = copy.deepcopy(root)
        scaled = set()  # an alias is the node itself
        for entry in child(child(root, "model"), "tables").value:
            rows = child(entry, "rows") if isinstance(entry, yaml.MappingNode) else None
            if whole_number(rows) and id(rows) not in scaled:
                scaled.add(id(rows))
                rows.value = str(max(1, round(int(rows.value) * rows_scale * self.rows_factor)))
        train = child(root, "train")
        remove(train, "epochs")
        put(train, "steps", str(options.steps))
        put(train, "global_batch_size", str(self.batch))
        if not isinstance(child(root, "data"), yaml.MappingNode):
            put(root, "data", "{}")
        put(child(root, "data"), "source", DATA[self.data])
        put(child(root, "data"), "test", '""')
        if self.sharding:
            self.put_sharding(root)
        put(root, "eval", "{at_end: false}")
        put(root, "checkpoint", "{at_end: false}")
        put(root, "output", "{}")
        for part, name in [("checkpoint", os.path.join(folder, "ckpt")), ("output", folder)]:
            text = yaml.ScalarNode("tag:yaml.org,2002:str", name, style='"')
            child(root, part).value.append((yaml.compose("directory", yaml.SafeLoader), text))
        write(path, yaml.serialize(root, Dumper=yaml.SafeDumper))

    def put_sharding(self, root):
        """Replaces the strategies of all tables. The machine for which `auto` plans stays."""
        before = child(root, "sharding")
        put(root, "sharding", "{}")
        if isinstance(before, modules().MappingNode):
            child(root, "sharding").value += [pair for pair in before.value if pair[0].value == "machine"]
        put(child(root, "sharding"), "strategy", self.sharding)
