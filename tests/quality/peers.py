"""Models of PyTorch and deepctr-torch on the same ids, in one loop of training."""
import copy
import sys
import types

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from movielens import GENRES, SINGLE


class Layers(nn.Module):
    """The shapes of dlrm-train, with PyTorch's initial layers and DLRM's initial rows."""

    def __init__(self, rows, shape, rules, recipe):
        super().__init__()
        shape = {"linear": False, **shape}
        kind = shape["interaction"] if isinstance(shape["interaction"], str) else shape["interaction"]["type"]
        width, features = recipe["width"], len(rows)
        self.kind, self.rows = kind, list(rows.values())
        self.first = torch.tensor([0, *self.rows]).cumsum(0)
        self.tables = self.rows_of(width)
        if "normal_rows" in shape:
            nn.init.normal_(self.tables.weight, std=shape["normal_rows"])
        self.linear = self.rows_of(1) if shape["linear"] else None
        total = features * width
        self.cross = nn.ModuleList()
        if kind == "cross":
            rank = shape["interaction"]["rank"]
            product = (lambda: nn.Sequential(nn.Linear(total, rank, bias=False), nn.Linear(rank, total))) if rank else (
                lambda: nn.Linear(total, total))
            self.cross.extend(product() for _ in range(shape["interaction"]["layers"]))
        self.pairs = torch.tril_indices(features, features, -1)
        widths = [{"dot": features * (features - 1) // 2, "fm": total + 1}.get(kind, total), *recipe["hidden"]]
        top = []
        for before, after in zip(widths, widths[1:]):
            top += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(rules.get("dropout", 0))]
        self.top = nn.Sequential(*top, nn.Linear(widths[-1], 1))

    def rows_of(self, width):
        """The rows of all tables, one table after the other."""
        rows = nn.Embedding(sum(self.rows), width, sparse=True)
        with torch.no_grad():
            for table in rows.weight.split(self.rows):
                table.uniform_(-len(table) ** -0.5, len(table) ** -0.5)
        return rows

    def pooled(self, rows, ids, genres):
        """[batch, features, width]; the genres, which are last, are averaged over those that are there."""
        single = ids.shape[1]
        found = rows(torch.cat([ids + self.first[:single], genres + self.first[single]], 1))
        there = (genres > 0).float()[:, :, None]
        mean = (found[:, single:] * there).sum(1, keepdim=True) / there.sum(1, keepdim=True)
        return torch.cat([found[:, :single], mean], 1)

    def forward(self, ids, genres):
        vectors = self.pooled(self.tables, ids, genres)
        joined = vectors.flatten(1)
        combined = joined
        if self.kind == "dot":
            combined = (vectors @ vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        elif self.kind == "fm":
            pairs = (vectors.sum(1) ** 2 - (vectors ** 2).sum(1)).sum(1, keepdim=True) / 2
            combined = torch.cat([joined, pairs], 1)
        for product in self.cross:
            combined = joined * product(combined) + combined
        logit = self.top(combined)[:, 0]
        if self.linear is not None:
            logit = logit + self.pooled(self.linear, ids, genres).sum((1, 2))
        return logit


class Plain:
    """PyTorch with the rules of dlrm-train: lazy Adam for rows, whose penalty acts on the rows of a batch."""

    def __init__(self, rows, shape, rules, recipe):
        self.model = Layers(rows, shape, rules, recipe)
        self.l2 = rules.get("l2", 0)
        tables = [p for name, p in self.model.named_parameters() if name.startswith(("tables", "linear"))]
        dense = [p for name, p in self.model.named_parameters() if not name.startswith(("tables", "linear"))]
        self.tables = tables
        self.optimizers = [torch.optim.SparseAdam(tables, lr=recipe["lr"]),
                           torch.optim.AdamW(dense, lr=recipe["lr"], weight_decay=rules.get("weight_decay", 0))]

    def step(self, ids, genres, labels):
        loss = nn.functional.binary_cross_entropy_with_logits(self.model(ids, genres), labels)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for table in self.tables if self.l2 else ():
            grad = table.grad.coalesce()
            table.grad = torch.sparse_coo_tensor(
                grad.indices(), grad.values() + self.l2 * table.detach()[grad.indices()[0]], grad.shape,
                is_coalesced=True)
        for optimizer in self.optimizers:
            optimizer.step()

    def score(self, ids, genres):
        return self.model(ids, genres)


class DeepCtr:
    """A model of deepctr-torch with its own initial weights, loss and penalty, which acts on all rows."""

    def __init__(self, rows, shape, rules, recipe):
        # Imported, it asks PyPI for its newest version with this package.
        sys.modules.setdefault("requests", types.ModuleType("requests"))
        from deepctr_torch import inputs, models
        columns = [inputs.SparseFeat(name, rows[name], embedding_dim=recipe["width"]) for name in SINGLE]
        columns.append(inputs.VarLenSparseFeat(
            inputs.SparseFeat(GENRES, rows[GENRES], embedding_dim=recipe["width"]), maxlen=recipe["bag"],
            combiner="mean"))
        options = dict(shape)
        model, linear = getattr(models, options.pop("model")), options.pop("linear")
        l2 = rules.get("l2", 0)
        self.model = model(columns if linear else [], columns, dnn_hidden_units=tuple(recipe["hidden"]),
                           l2_reg_linear=l2, l2_reg_embedding=l2, dnn_dropout=rules.get("dropout", 0),
                           seed=torch.initial_seed(), **options)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=recipe["lr"])

    def score(self, ids, genres):
        return self.model(torch.cat([ids, genres], 1).float())[:, 0]

    def step(self, ids, genres, labels):
        loss = nn.functional.binary_cross_entropy(self.score(ids, genres), labels, reduction="sum")
        self.optimizer.zero_grad()
        (loss + self.model.get_regularization_loss()).backward()
        self.optimizer.step()


def auc(peer, ids, genres, labels):
    peer.model.eval()
    with torch.no_grad():
        scores = np.concatenate([peer.score(i, g).numpy() for i, g in zip(ids.split(4096), genres.split(4096))])
    peer.model.train()
    return float(roc_auc_score(labels, scores))


def train(kind, data, split, shape, rules, recipe, seed):
    """AUCs on valid and test of the weights that are best on valid, and the step of these weights."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    parts = {part: (torch.from_numpy(data.ids[samples]), torch.from_numpy(data.genres[samples]),
                    torch.from_numpy(data.labels[samples]).float()) for part, samples in split.items()}
    peer = kind(data.rows, shape, rules, {**recipe, "bag": data.genres.shape[1]})
    count, batch = len(split["train"]), recipe["batch"]
    steps = -(-count // batch)
    between = round(steps * recipe["every_epochs"])
    best, best_weights, step, since = {"valid": 0.0}, None, 0, 0
    for _ in range(recipe["epochs"]):
        for samples in torch.randperm(count).split(batch):
            peer.step(*(column[samples] for column in parts["train"]))
            step += 1
            if step % between:
                continue
            reached = auc(peer, *parts["valid"])
            since += 1
            if reached > best["valid"]:
                best, best_weights, since = {"valid": reached, "step": step}, copy.deepcopy(peer.model.state_dict()), 0
            if since == recipe["patience"]:
                break
        if since == recipe["patience"]:
            break
    peer.model.load_state_dict(best_weights)
    return {**best, "test": auc(peer, *parts["test"])}
