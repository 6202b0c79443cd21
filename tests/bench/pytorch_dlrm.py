#!/usr/bin/env python3
"""DLRM in PyTorch, timed: compare.py and launch/acceptance compare dlrm-train with it.

    pytorch_dlrm.py CONFIG [--kind torch,fbgemm,compiled] [--precision fp32] [--batch 8,128] [--threads 1,2]
        [--seconds 1] [--device cuda]

Prints a JSON line for each measurement. Dot interaction, BCE with logits, SGD, the shapes and the learning rate of
the config. The kinds differ in their tables: `torch` has one nn.EmbeddingBag(sparse=True) for each, `fbgemm` FBGEMM's
table-batched embeddings for CPUs, which update rows in the backward pass, and `compiled` the same with all else in
torch.compile. bf16 is autocast. Every step trains on uniform ids and a batch of its own, made before the clock starts.
On a GPU fp32 products may use TF32.
"""
import argparse
import contextlib
import inspect
import json
import time

import torch

import model_shapes

KINDS = ("torch", "fbgemm", "compiled")
SAMPLES = 1 << 16  # made beforehand, and used again when they are used up


class Dense(torch.nn.Module):
    """All but the tables: MLPs, interaction and loss."""

    def __init__(self, shapes):
        super().__init__()
        self.bottom = self.mlp([shapes.dense_features] + shapes.bottom, last_relu=True)
        self.top = self.mlp([shapes.interaction_width()] + shapes.top, last_relu=False)
        vectors = len(shapes.tables) + 1
        row, column = torch.tril_indices(vectors, vectors, -1)
        self.register_buffer("lower", row * vectors + column)

    @staticmethod
    def mlp(widths, last_relu):
        layers = []
        for i, (n, m) in enumerate(zip(widths, widths[1:])):
            layers.append(torch.nn.Linear(n, m))
            if last_relu or i + 2 < len(widths):
                layers.append(torch.nn.ReLU())
        return torch.nn.Sequential(*layers)

    def forward(self, dense, pooled, labels):
        x = self.bottom(dense)
        vectors = torch.cat([x] + [part.to(x.dtype) for part in pooled], 1).view(x.shape[0], -1, x.shape[1])
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        logits = self.top(torch.cat([x, products.index_select(1, self.lower)], 1))
        return torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), labels)


def fbgemm_tables(shapes):
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
    return SplitTableBatchedEmbeddingBagsCodegen(
        [(t.rows, t.dim, EmbeddingLocation.HOST, ComputeDevice.CPU) for t in shapes.tables],
        optimizer=EmbOptimType.EXACT_SGD, learning_rate=shapes.lr, pooling_mode=PoolingMode.SUM)


def sgd(parameters, lr):
    """Fused where this PyTorch has that. Beside it, foreach and plain loops were not faster by more than 3 %, with the
    dense layers of configs/bench/kaggle.yaml at batches of 8, 128 and 2048, on one thread and on two."""
    fused = {"fused": True} if "fused" in inspect.signature(torch.optim.SGD).parameters else {}
    return torch.optim.SGD(parameters, lr, **fused)


class Peer:
    """A model that is trained in several ways, by `kinds`, with the same parameters."""

    def __init__(self, shapes, kinds=KINDS, device="cpu"):
        torch.manual_seed(1)
        torch.backends.cuda.matmul.allow_tf32 = True
        self.shapes, self.device, self.made = shapes, device, {}
        self.finish = torch.cuda.synchronize if device == "cuda" else lambda: None
        if kinds == ["torch"]:
            self.weights = [torch.empty(t.rows, t.dim, device=device) for t in shapes.tables]
        else:
            self.fused = fbgemm_tables(shapes)
            self.weights = self.fused.split_embedding_weights()
        for weight in self.weights:
            weight.uniform_(-len(weight) ** -0.5, len(weight) ** -0.5)
        self.bags = [torch.nn.EmbeddingBag.from_pretrained(w, freeze=False, mode="sum", sparse=True) for w in self.weights]
        self.dense = Dense(shapes).to(device)
        self.dense_sgd = sgd(self.dense.parameters(), shapes.lr)
        self.sparse_sgd = torch.optim.SGD([bag.weight for bag in self.bags], shapes.lr)
        if "compiled" in kinds:
            torch._dynamo.config.recompile_limit = 1 << 10  # a code for each batch size and number of threads
            self.compiled = torch.compile(self.dense, dynamic=False)

    def batches(self, kind, dense, ids, labels, batch):
        """Of samples of `dense` [n, features], `labels` [n, 1] and `ids`, one [n, hotness] a table."""
        if kind == "torch":
            offsets = [torch.arange(0, batch * i.shape[1], i.shape[1], device=self.device) for i in ids]
        else:
            lengths = torch.cat([torch.zeros(1, dtype=int)] + [torch.full((batch,), i.shape[1]) for i in ids])
            offsets = lengths.cumsum(0)
        made = []
        for begin in range(0, len(dense) - batch + 1, batch):
            part = slice(begin, begin + batch)
            own = [i[part].flatten() for i in ids]
            made.append((dense[part], own if kind == "torch" else torch.cat(own), offsets, labels[part]))
        return made

    def uniform(self, kind, batch):
        key = kind == "torch", batch
        if key not in self.made:
            n = max(SAMPLES, 8 * batch)
            dense = 100 * torch.rand(n, self.shapes.dense_features, device=self.device)
            labels = torch.randint(0, 2, (n, 1), device=self.device).float()
            ids = [torch.randint(0, t.rows, (n, t.hotness), device=self.device) for t in self.shapes.tables]
            self.made[key] = self.batches(kind, dense, ids, labels, batch)
        return self.made[key]

    def step(self, kind, precision, batch):
        dense, ids, offsets, labels = batch
        self.dense_sgd.zero_grad(set_to_none=True)
        if kind == "torch":
            self.sparse_sgd.zero_grad(set_to_none=True)
            pooled = [bag(i, o) for bag, i, o in zip(self.bags, ids, offsets)]
        else:
            pooled = [self.fused(ids, offsets)]
        with torch.autocast(self.device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext():
            loss = (self.compiled if kind == "compiled" else self.dense)(dense, pooled, labels)
        loss.backward()
        self.dense_sgd.step()
        if kind == "torch":
            self.sparse_sgd.step()
        return loss

    def measure(self, kind, precision, batch, threads, seconds):
        torch.set_num_threads(threads)
        batches = self.uniform(kind, batch)
        for k in range(5):  # warm-up, and compilation
            self.step(kind, precision, batches[k])
        self.finish()
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + seconds:
            loss = self.step(kind, precision, batches[(5 + steps) % len(batches)])
            steps += 1
        self.finish()
        taken = time.perf_counter() - begin
        if not torch.isfinite(loss):
            raise SystemExit("the loss is not finite: a smaller learning rate is needed")
        return {"kind": kind, "precision": precision, "batch": batch, "threads": threads, "steps": steps,
                "samples_per_second": steps * batch / taken, "step_ms": 1e3 * taken / steps}


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description="DLRM in PyTorch, timed.")
    parser.add_argument("config")
    parser.add_argument("--kind", type=lambda text: text.split(","), default=["torch"])
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=numbers, default=[128])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    peer = Peer(model_shapes.load(options.config), options.kind, options.device)
    for batch in options.batch:
        for kind in options.kind:
            for threads in options.threads:
                print(json.dumps(peer.measure(kind, options.precision, batch, threads, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
