#!/usr/bin/python3
"""DLRM in PyTorch, timed: compare.py and launch/acceptance compare dlrm-train with it.

    pytorch_dlrm.py CONFIG --batch 8,128 --threads 1,2 [--seconds 2] [--device cuda]
    pytorch_dlrm.py CONFIG --serve      requests on stdin, one JSON object a line: {"batch", "threads", "seconds"}

Prints a JSON line for each measurement. One nn.EmbeddingBag(sparse=True) a table, dot interaction, BCE with
logits, SGD; the shapes are those of the config. Ids are uniform. Every step trains on a batch of its own, made
before the clock starts. On a GPU fp32 products may use TF32.
"""
import argparse
import ctypes
import json
import sys
import time

import torch

import model_shapes

SAMPLES_AT_ONCE = 1 << 16
IDS_AT_ONCE = 1 << 25


class Dlrm(torch.nn.Module):
    def __init__(self, shapes):
        super().__init__()
        self.tables = torch.nn.ModuleList()
        for t in shapes.tables:
            weight = torch.empty(t.rows, t.dim).uniform_(-t.rows ** -0.5, t.rows ** -0.5)
            self.tables.append(torch.nn.EmbeddingBag.from_pretrained(weight, freeze=False, mode="sum", sparse=True))
        self.bottom = self.mlp([shapes.dense_features] + shapes.bottom, last_relu=True)
        self.top = self.mlp([shapes.interaction_width()] + shapes.top, last_relu=False)
        vectors = len(shapes.tables) + 1
        self.register_buffer("lower", torch.tril_indices(vectors, vectors, -1))

    @staticmethod
    def mlp(widths, last_relu):
        layers = []
        for i, (n, m) in enumerate(zip(widths, widths[1:])):
            layers.append(torch.nn.Linear(n, m))
            if last_relu or i + 2 < len(widths):
                layers.append(torch.nn.ReLU())
        return torch.nn.Sequential(*layers)

    def forward(self, dense, ids, offsets):
        x = self.bottom(dense)
        vectors = [x] + [table(i, o) for table, i, o in zip(self.tables, ids, offsets)]
        stacked = torch.cat(vectors, 1).view(x.shape[0], len(vectors), -1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.lower[0], self.lower[1]]], 1))


def set_threads(threads):
    """PyTorch's own threads and those of the BLAS that it calls."""
    torch.set_num_threads(threads)
    try:
        ctypes.CDLL("libopenblas.so.0").openblas_set_num_threads(threads)
    except (OSError, AttributeError):
        pass  # another BLAS, which follows the OpenMP setting


class Peer:
    def __init__(self, shapes, device="cpu"):
        torch.manual_seed(1)
        self.shapes, self.device = shapes, device
        self.finish = torch.cuda.synchronize if device == "cuda" else lambda: None
        torch.backends.cuda.matmul.allow_tf32 = True
        self.model = Dlrm(shapes).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=shapes.lr)
        self.loss = torch.nn.BCEWithLogitsLoss()
        self.rates = {}  # samples/s by (batch, threads), to know how many batches to make

    def batches(self, batch, count):
        samples = batch * count
        dense = 100 * torch.rand(samples, self.shapes.dense_features)
        labels = torch.randint(0, 2, (samples, 1)).float()
        dense, labels = dense.to(self.device), labels.to(self.device)
        ids = [torch.randint(0, t.rows, (samples * t.hotness,), device=self.device) for t in self.shapes.tables]
        offsets = [torch.arange(0, batch * t.hotness, t.hotness, device=self.device) for t in self.shapes.tables]
        made = []
        for k in range(count):
            part = slice(k * batch, (k + 1) * batch)
            chosen = [i[k * batch * t.hotness:(k + 1) * batch * t.hotness] for i, t in zip(ids, self.shapes.tables)]
            made.append((dense[part], chosen, offsets, labels[part]))
        return made

    def step(self, batch):
        dense, ids, offsets, labels = batch
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model(dense, ids, offsets), labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, batches):
        self.finish()
        begin = time.perf_counter()
        for batch in batches:
            loss = self.step(batch)
        self.finish()
        seconds = time.perf_counter() - begin
        if not torch.isfinite(loss):
            raise SystemExit("the loss is not finite: a smaller learning rate is needed")
        return seconds

    def measure(self, batch, threads, seconds):
        set_threads(threads)
        key = (batch, threads)
        few = self.batches(batch, 5)
        warm = self.train(few[:2]) / 2
        self.rates[key] = self.rates.get(key, batch / min(warm, self.train(few) / 5))
        ids = batch * sum(t.hotness for t in self.shapes.tables)
        steps, samples, taken = 0, 0, 0.0
        while taken < seconds:
            wanted = int((seconds - taken) * self.rates[key] / batch) + 1
            most = SAMPLES_AT_ONCE * (8 if self.device == "cuda" else 1)  # a GPU's memory has room for more
            count = max(1, min(wanted, IDS_AT_ONCE // ids, most // batch))
            made = self.batches(batch, count)
            taken += self.train(made)
            steps += count
            samples += count * batch
            self.rates[key] = samples / taken
        return {"batch": batch, "threads": threads, "steps": steps, "samples_per_second": samples / taken,
                "step_ms": 1e3 * taken / steps}


def serve(peer):
    print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(peer.measure(**json.loads(line))), flush=True)


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description="DLRM in PyTorch, timed.")
    parser.add_argument("config")
    parser.add_argument("--batch", type=numbers, default=[128])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    peer = Peer(model_shapes.load(arguments.config), arguments.device)
    if arguments.serve:
        return serve(peer)
    for batch in arguments.batch:
        for threads in arguments.threads:
            print(json.dumps(peer.measure(batch, threads, arguments.seconds)), flush=True)


if __name__ == "__main__":
    main()
