"""The shapes of a model as a training config (YAML) states them, for programs that are compared with dlrm-train."""
from dataclasses import dataclass

import yaml


@dataclass(frozen=True)
class Table:
    name: str
    rows: int
    dim: int
    hotness: int


@dataclass(frozen=True)
class Shapes:
    dense_features: int
    bottom: list
    top: list
    tables: list
    lr: float

    def interaction_width(self):
        vectors = len(self.tables) + 1
        return self.bottom[-1] + vectors * (vectors - 1) // 2

    def mlp_weights(self):
        def count(widths):
            return sum(a * b for a, b in zip(widths, widths[1:]))
        return count([self.dense_features] + self.bottom) + count([self.interaction_width()] + self.top)

    def flops_per_sample(self):
        """Forward, and backward to inputs and to weights: each 2 a weight."""
        return 6 * self.mlp_weights()

    def bytes_per_sample(self):
        """Of rows: read in the forward pass, read and written in the update."""
        return 3 * sum(4 * t.hotness * t.dim for t in self.tables)


def expand(table, default_dim):
    features = table.get("features", [{"hotness": table.get("hotness", 1)}])
    if len(features) != 1:
        raise SystemExit(f"table {table['name']}: the comparison knows tables of one feature only")
    dim, hotness = table.get("dim", default_dim), features[0].get("hotness", 1)
    names = [table["name"]] if "count" not in table else [f"{table['name']}_{i}" for i in range(table["count"])]
    return [Table(name, table["rows"], dim, hotness) for name in names]


def load(path):
    with open(path, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    model = config["model"]
    if model.get("interaction", "dot") != "dot":
        raise SystemExit(f"{path}: the comparison knows the dot interaction only")
    dim = model.get("embedding_dim", 16)
    tables = [t for entry in model["tables"] for t in expand(entry, dim)]
    rates = [config["train"].get(f"{part}_optimizer", {}).get("lr", 0.1) for part in ("dense", "sparse")]
    if rates[0] != rates[1]:
        raise SystemExit(f"{path}: the comparison knows one learning rate for all parameters only")
    return Shapes(model["dense_features"], model["bottom_mlp"], model["top_mlp"], tables, float(rates[0]))
