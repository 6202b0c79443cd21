"""The rows of docs/benchmarks/cpu.md: which model, at which batch size, in which precision, on how many ranks."""
from dataclasses import dataclass

MODELS = {"kaggle": "configs/bench/kaggle.yaml", "lookup": "configs/bench/lookup.yaml",
          "dle": "configs/bench/dle_mlp.yaml"}


@dataclass(frozen=True)
class Row:
    model: str
    batch: int
    precision: str = "fp32"
    ranks: int = 1

    @property
    def name(self):
        words = [self.model]
        if self.precision != "fp32":
            words.append(self.precision)
        if self.ranks > 1:
            words.append(f"{self.ranks}ranks")
        return "-".join(words + [str(self.batch)])

    @property
    def base(self):
        """The row that bf16, or ranks of one thread each, are measured against."""
        return Row(self.model, self.batch)

    @property
    def has_peer(self):
        return self == self.base

    @property
    def goals(self):
        """The goals: share of the limit, ratio over PyTorch, ratio over the base row. None if there is no goal."""
        if self.precision == "bf16":
            return None, None, 1.6  # with AVX512-BF16; 4 with AMX
        if self.ranks > 1:
            return None, None, 0.9 if self.batch >= 128 else None
        if self.bound_by_lookups:
            return 0.8, 5.0, None
        if self.batch <= 16:
            return 0.35, 6.0, None
        return (0.6, 2.2, None) if self.batch <= 128 else (0.75, 1.7, None)

    @property
    def bound_by_lookups(self):
        return self.model == "lookup"


ROWS = ([Row("kaggle", 8 << i) for i in range(9)] + [Row("lookup", 256), Row("dle", 2048)] +
        [Row("kaggle", 512 << i, precision="bf16") for i in range(3)] + [Row("dle", 2048, precision="bf16")] +
        [Row("kaggle", 8 << i, ranks=2) for i in range(9)])
