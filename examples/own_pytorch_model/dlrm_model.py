"""A DLRM in plain PyTorch, and its tables as EmbeddingBags."""
import glob
import os

import h5py
import torch


def weights_of(directory):
    """The newest checkpoint of dlrm-train in `directory`, as an open HDF5 file."""
    return h5py.File(sorted(glob.glob(os.path.join(directory, "step_*", "index.h5")))[-1], "r")


class PlainTables(torch.nn.Module):
    def __init__(self, tables, dim):
        super().__init__()
        self.bags = torch.nn.ModuleDict({
            table["name"]: torch.nn.EmbeddingBag(table["rows"], dim, mode=table.get("pooling", "sum"),
                                                 include_last_offset=True)
            for table in tables})

    def forward(self, ids, offsets):
        """ids by feature, then by sample; [features·b + 1] offsets. Returns [b, features·dim]."""
        b = (len(offsets) - 1) // len(self.bags)
        pooled = []
        for f, bag in enumerate(self.bags.values()):
            own = offsets[f * b:(f + 1) * b + 1]
            pooled.append(bag(ids[own[0]:own[-1]], own - own[0]))
        return torch.cat(pooled, 1)

    @torch.no_grad()
    def load(self, directory, weights_only=True):
        with weights_of(directory) as saved:
            for name, bag in self.bags.items():
                bag.weight.copy_(torch.from_numpy(saved[f"tables/{name}/weight"][()]))


def mlp(widths, last):
    layers = []
    for below, above in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(below, above), torch.nn.ReLU()]
    return torch.nn.Sequential(*(layers if last else layers[:-1]))


class DLRM(torch.nn.Module):
    """Dense features and tables meet in dot products of all pairs. Returns logits [b]."""

    def __init__(self, tables, model):
        super().__init__()
        self.tables = tables
        self.dim = model["embedding_dim"]
        vectors = 1 + len(model["tables"])
        self.bottom = mlp([model["dense_features"]] + model["bottom_mlp"], last=True)
        self.top = mlp([self.dim + vectors * (vectors - 1) // 2] + model["top_mlp"], last=False)
        self.pairs = torch.tril_indices(vectors, vectors, -1)

    def forward(self, dense, ids, offsets):
        x = self.bottom(dense)
        pooled = self.tables(ids, offsets).view(len(dense), -1, self.dim)
        vectors = torch.cat([x.unsqueeze(1), pooled], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1))[:, 0]

    @torch.no_grad()
    def load(self, directory):
        """Takes the weights of a checkpoint of dlrm-train."""
        self.tables.load(directory, weights_only=True)
        with weights_of(directory) as saved:
            for part in ("bottom", "top"):
                linear = [layer for layer in getattr(self, part) if isinstance(layer, torch.nn.Linear)]
                for i, layer in enumerate(linear):
                    layer.weight.copy_(torch.from_numpy(saved[f"mlp/{part}/{i}/weight"][()]))
                    layer.bias.copy_(torch.from_numpy(saved[f"mlp/{part}/{i}/bias"][()]))
