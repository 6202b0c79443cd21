"""Small tables, their batches, and one rank's training in fp64."""
import numpy as np

# Table: rows, width, ids in the largest bag, pooling. Bags of `some` vary, and some are empty.
TABLES = {"one": (1, 1, 1, "sum"), "some": (29, 6, 4, "sum"), "mean": (11, 5, 3, "mean")}
WEIGHTED = "some"  # its ids have weights
WIDTH = sum(width for _, width, _, _ in TABLES.values())
SIZES = (7, 7, 2, 5, 1)  # of global batches: some ranks have no sample of the small ones
MOST = max(SIZES)
LR = 0.3


def table_list():
    return [{"name": name, "rows": rows, "dim": width, "hotness": hot, "pooling": pooling, "weights": name == WEIGHTED}
            for name, (rows, width, hot, pooling) in TABLES.items()]


def part(total, rank, size):
    return total * rank // size, total * (rank + 1) // size


def batch(step):
    """The bags of every table, a list of ids for each sample, and targets [B, WIDTH]."""
    rng = np.random.default_rng(step)
    samples = SIZES[step % len(SIZES)]
    bags = {}
    for name, (rows, _, hot, _) in TABLES.items():
        lengths = rng.integers(0, hot + 1, samples) if name == "some" else [hot] * samples
        bags[name] = [rng.integers(0, rows, n).tolist() for n in lengths]
    if samples > 1:
        bags["some"][1] = []
    return bags, rng.normal(size=(samples, WIDTH)).astype(np.float32)


def weights_of(step, name, sample, count):
    """The weights of a bag's ids."""
    if name != WEIGHTED:
        return np.ones(count, np.float32)
    return np.random.default_rng((step, sample)).normal(size=count).astype(np.float32)


def local(step, rank, size):
    """Feature-major ids and offsets of a rank's samples, their targets, and the weights of the ids."""
    bags, targets = batch(step)
    begin, end = part(len(targets), rank, size)
    ids, offsets, weights = [], [0], [np.empty(0, np.float32)]
    for name, lists in bags.items():
        for sample in range(begin, end):
            ids += lists[sample]
            offsets.append(len(ids))
            weights.append(weights_of(step, name, sample, len(lists[sample])))
    return np.array(ids, np.int64), np.array(offsets, np.int64), targets[begin:end], np.concatenate(weights)


class Reference:
    """Adagrad on the mean over samples of half the squared distance of pooled vectors from targets."""

    def __init__(self, weights):
        self.weights = {name: weights[name].astype(np.float64) for name in TABLES}
        self.sums = {name: np.zeros_like(w) for name, w in self.weights.items()}

    def pooled(self, step, bags):
        columns = []
        for name, lists in bags.items():
            w, mean = self.weights[name], TABLES[name][3] == "mean"
            columns.append([weights_of(step, name, sample, len(bag)) @ w[bag] / (len(bag) if mean and bag else 1)
                            for sample, bag in enumerate(lists)])
        return np.concatenate([np.array(c) for c in columns], 1)

    def train(self, step):
        """Returns the pooled vectors before the update."""
        bags, targets = batch(step)
        pooled = self.pooled(step, bags)
        gradient, first = (pooled - targets) / len(targets), 0
        for name, lists in bags.items():
            _, width, _, pooling = TABLES[name]
            of_rows = np.zeros_like(self.weights[name])
            for sample, bag in enumerate(lists):
                share = len(bag) if pooling == "mean" else 1
                for row, weight in zip(bag, weights_of(step, name, sample, len(bag))):
                    of_rows[row] += weight * gradient[sample, first:first + width] / share
            present = sorted({row for bag in lists for row in bag})
            self.sums[name][present] += of_rows[present] ** 2
            self.weights[name][present] -= LR * of_rows[present] / (np.sqrt(self.sums[name][present]) + 1e-10)
            first += width
        return pooled
