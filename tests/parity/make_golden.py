#!/usr/bin/env python3
"""Trains the models of models.json in PyTorch (fp64) and writes their losses to losses.csv.

    make_golden.py PATH/TO/dlrm-train [--check]

The data sets (data.h5; tasks.h5 of two labels, of which samples lack some) are made here from a fixed seed if
they are not there; the initial weights are those of
dlrm-train, read from a checkpoint that it saves before its first step. --check compares with the losses
in place instead of writing them, and then trains each activation in both programs.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BATCH, DENSE = 50, 64, 5
ROWS = {"a": 1000, "b": 37, "c": 5, "d": 211}
HOT = {"a": 1, "b": 3, "c": 2, "d": 1}
with open(os.path.join(HERE, "models.json")) as f:
    MODELS = json.load(f)  # the keys by which each differs from model.yaml
LOSSES = os.path.join(HERE, "losses.csv")  # a column a model, a row a step
WEIGHTED = ["a", "c"]  # whose ids have weights in weighted_dot and tasks_*
TASKS = {"click": 1.0, "buy": 0.5}  # weights of their losses
ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def data_of(model):
    return os.path.join(HERE, "tasks.h5" if model.startswith("tasks") else "data.h5")


def make_data(path, batches=STEPS, tasks=False):
    rng = np.random.default_rng(20)
    n = batches * BATCH - 17  # the last batch is a partial one
    with h5py.File(path, "w") as f:
        f.attrs["format"] = "dlrm-dataset"
        f.attrs["version"] = 1
        f.attrs["samples"] = n
        dense = rng.normal(size=(n, DENSE)).astype(np.float32)
        ids = {k: (ROWS[k] * rng.random((n, HOT[k])) ** 3).astype(np.int32) for k in ROWS}
        logit = dense @ rng.normal(size=DENSE) + np.cos(ids["a"][:, 0]) + np.sin(ids["d"][:, 0])
        label = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.uint8)
        if tasks:
            buy = (rng.random(n) < 1 / (1 + np.exp(-0.5 * logit))).astype(np.float32)
            click = np.where(rng.random(n) < 0.1, np.nan, label).astype(np.float32)
            buy = np.where((click == 1) & (np.arange(n) // BATCH != 3), buy, np.nan)  # none in batch 3
            label = np.stack([click, buy], 1).astype(np.float32)
        f["label"] = label
        f["dense"] = dense
        for k in ROWS:
            f[f"sparse/{k}/ids"] = ids[k].reshape(-1)
            f[f"sparse/{k}/ids"].attrs["rows"] = ROWS[k]
            f[f"sparse/{k}/ids"].attrs["hotness"] = HOT[k]
        weights = np.random.default_rng(21)
        for k in WEIGHTED:
            f[f"sparse/{k}/weights"] = weights.normal(size=n * HOT[k]).astype(np.float32)


def run(program, model, folder, *keys):
    """Trains the model with the program, whose files are then in the folder."""
    keys = MODELS[model] + [f"data.train={data_of(model)}", f"checkpoint.directory={folder}/ckpt",
                            f"output.directory={folder}/run", *keys]
    subprocess.run([program, os.path.join(HERE, "model.yaml")] + [word for key in keys for word in ("--set", key)],
                   check=True, stderr=subprocess.DEVNULL)


def initial_weights(program, model):
    with tempfile.TemporaryDirectory() as folder:
        run(program, model, folder, "train.steps=0", "checkpoint.at_end=true")
        weights = {}
        with h5py.File(f"{folder}/ckpt/step_000000000/index.h5", "r") as f:
            f.visititems(lambda name, item: weights.__setitem__(name, item[()].astype(np.float64))
                         if isinstance(item, h5py.Dataset) else None)
    return {k: torch.tensor(v, requires_grad=True) for k, v in weights.items()
            if k.split("/")[-1] in ("weight", "bias", "u", "v")}


def mlp(w, name, x, act, also_last):
    layers = sorted({int(k.split("/")[2]) for k in w if k.startswith(f"{name}/")})
    for i in layers:
        x = x @ w[f"{name}/{i}/weight"].T + w[f"{name}/{i}/bias"]
        norm = f"{name}/{i}/norm"
        if norm + "/weight" in w:
            x = torch.nn.functional.layer_norm(x, x.shape[1:], w[norm + "/weight"], w[norm + "/bias"])
        if i != layers[-1] or also_last:
            x = act(x)
    return x


def pooled(model, w, kind, ids, weights):
    """The pooled rows of each feature. Table b pools by the mean, or with c by the maximum, the others by the sum."""
    modes = {"b": "max", "c": "max"} if model.startswith("max") else {"b": "mean"}
    return [torch.nn.functional.embedding_bag(ids[k], w[f"{kind}/{k}/weight"], mode=modes.get(k, "sum"),
                                              per_sample_weights=weights.get(k)) for k in ROWS]


def forward(model, w, dense, ids, weights, act):
    """The logits [b, labels]."""
    x = mlp(w, "mlp/bottom", dense, act, True)
    if not model.startswith(("weighted", "tasks")):
        weights = {}
    e = pooled(model, w, "tables", ids, weights)
    if model.endswith("dot"):
        t = torch.stack([x] + e, 1)
        products = t @ t.transpose(1, 2)
        i, j = np.tril_indices(len(e) + 1, -1)
        z = torch.cat([x, products[:, i, j]], 1)
    else:
        z = torch.cat([x] + e, 1)
    if model.endswith("fm"):
        v = torch.stack([x] + e, 1)
        fm = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1)).sum(1, keepdim=True)
        z = torch.cat([z, fm], 1)
    if model.endswith("cross"):
        x0 = z
        for i in range(2):
            low = z @ w[f"cross/{i}/v"].T
            z = x0 * (low @ w[f"cross/{i}/u"].T + w[f"cross/{i}/bias"]) + z
    towers = [f"tasks/{task}" for task in TASKS] if model.startswith("tasks") else ["mlp/top"]
    logits = torch.cat([mlp(w, tower, x, act, False) for tower, x in zip(towers, tower_inputs(w, z, act))], 1)
    if "linear_dense/weight" in w:
        logits = logits + sum(pooled(model, w, "linear", ids, weights)) + dense @ w["linear_dense/weight"].T
    return logits


def tower_inputs(w, z, act):
    """What each tower sees: z, or the outputs of experts by the shares of its gate."""
    if "gates/weight" not in w:
        return [z] * len(TASKS)
    experts = sorted({k.split("/")[1] for k in w if k.startswith("experts/")})
    outputs = torch.stack([mlp(w, f"experts/{e}", z, act, True) for e in experts], 1)
    gates = (z @ w["gates/weight"].T).reshape(len(z), len(TASKS), len(experts))
    return list((gates.softmax(2) @ outputs).unbind(1))


def loss_of(model, logits, labels):
    """A label of NaN is missing, and counts as a sample with a loss of 0."""
    there = ~torch.isnan(labels)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.where(there, labels, 0.5 + 0 * logits),
                                                                  reduction="none")
    weights = torch.tensor(list(TASKS.values()) if model.startswith("tasks") else [1.0], dtype=torch.float64)
    return (torch.where(there, losses, 0 * losses).mean(0) * weights).sum()


class Ftrl(torch.optim.Optimizer):
    """FTRL-proximal: algorithm 1 of McMahan et al. (2013), from a z that keeps the initial weights."""

    def __init__(self, parameters, lr, beta, l1, l2, initial_accumulator):
        super().__init__(parameters, {"lr": lr, "beta": beta, "l1": l1, "l2": l2})
        for group in self.param_groups:
            for w in group["params"]:
                n = torch.full_like(w, initial_accumulator)
                q = (beta + n.sqrt()) / lr + l2
                self.state[w] = {"n": n, "z": (-w * q - l1 * w.sign()).detach()}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, l1 = group["lr"], group["l1"]
            for w in group["params"]:
                n, z, g = self.state[w]["n"], self.state[w]["z"], w.grad
                z += g - ((n + g * g).sqrt() - n.sqrt()) / lr * w
                n += g * g
                q = (group["beta"] + n.sqrt()) / lr + group["l2"]
                w.copy_(torch.where(z.abs() <= l1, torch.zeros_like(w), -(z - l1 * z.sign()) / q))


class Lamb(torch.optim.Optimizer):
    """LAMB: algorithm 2 of You et al. (2020), with the norm itself as scaling function."""

    def __init__(self, parameters, lr, weight_decay, beta1=0.9, beta2=0.999, eps=1e-6):
        super().__init__(parameters, {"lr": lr, "decay": weight_decay, "betas": (beta1, beta2), "eps": eps})
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for w in group["params"]:
                state = self.state[w]
                state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * w.grad
                state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * w.grad ** 2
                m, v = state["m"] / (1 - beta1 ** self.t), state["v"] / (1 - beta2 ** self.t)
                r = m / (v.sqrt() + group["eps"]) + group["decay"] * w
                trust = w.norm() / r.norm() if w.norm() > 0 and r.norm() > 0 else 1.0
                w -= group["lr"] * trust * r


def optimizers(model, weights):
    """The optimizer of the tables, and that of the dense layers."""
    tables = [w for name, w in weights.items() if name.startswith(("tables/", "linear/"))]
    dense = [w for name, w in weights.items() if not name.startswith(("tables/", "linear/"))]
    if model.startswith("sgd"):
        return [torch.optim.SGD(tables + dense, lr=0.1)]
    if model.startswith("ftrl"):
        return [Ftrl(tables, lr=0.5, beta=0.5, l1=0.01, l2=0.1, initial_accumulator=0.01),
                torch.optim.SGD(dense, lr=0.1)]
    if model.startswith("lamb"):
        return [torch.optim.Adagrad(tables, lr=0.05, eps=1e-10), Lamb(dense, lr=0.02, weight_decay=0.01)]
    if model.startswith("adamw"):
        return [torch.optim.Adagrad(tables, lr=0.05, eps=1e-10), torch.optim.AdamW(dense, lr=0.02, weight_decay=0.5)]
    if model.endswith("deepfm"):
        return [torch.optim.Adagrad(tables, lr=0.03, eps=1e-10), torch.optim.Adagrad(dense, lr=0.05, eps=1e-10)]
    return [torch.optim.Adagrad(tables + dense, lr=0.05, eps=1e-10)]


def schedules(model, of_model):
    """Those of the learning rates, each stepped after its optimizer."""
    if not model.startswith("adamw"):
        return []
    return [torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS, 0.1 * o.param_groups[0]["lr"]) for o in of_model]


def train(model, weights, activation=None):
    act = ACTIVATIONS[activation or ("gelu" if model.startswith("gelu") else "relu")]
    of_model = optimizers(model, weights)
    of_rates = schedules(model, of_model)
    losses = []
    with h5py.File(data_of(model), "r") as f:
        n = int(f.attrs["samples"])
        label = torch.tensor(f["label"][()].astype(np.float64)).reshape(n, -1)
        dense = torch.tensor(f["dense"][()].astype(np.float64))
        ids = {k: torch.tensor(f[f"sparse/{k}/ids"][()].reshape(n, -1).astype(np.int64)) for k in ROWS}
        of_ids = {k: torch.tensor(f[f"sparse/{k}/weights"][()].reshape(n, -1).astype(np.float64)) for k in WEIGHTED}
    batches = -(-n // BATCH)  # of an epoch
    for step in range(STEPS):
        begin = step % batches * BATCH
        part = slice(begin, min(begin + BATCH, n))
        logits = forward(model, weights, dense[part], {k: v[part] for k, v in ids.items()},
                         {k: v[part] for k, v in of_ids.items()}, act)
        loss = loss_of(model, logits, label[part])
        for optimizer in of_model:
            optimizer.zero_grad()
        loss.backward()
        if model.startswith("adamw"):
            torch.nn.utils.clip_grad_norm_([w for name, w in weights.items() if not name.startswith("tables/")], 0.1)
        for optimizer in of_model + of_rates:
            optimizer.step()
        losses.append(loss.item())
    return losses


def own_losses(program, model, activation):
    with tempfile.TemporaryDirectory() as folder:
        run(program, model, folder, "model.activation=" + activation)
        with open(f"{folder}/run/metrics.jsonl") as f:
            return [line["loss"] for line in map(json.loads, f) if "loss" in line]


def check_activations(program):
    """Every activation of the configuration, trained here and by the program."""
    worst = 0.0
    for activation in ACTIVATIONS:
        theirs = train("gelu_dot", initial_weights(program, "gelu_dot"), activation)
        ours = own_losses(program, "gelu_dot", activation)
        assert len(ours) == len(theirs) == STEPS
        worst = max(worst, max(abs(a / b - 1) for a, b in zip(ours, theirs)))
    print(f"largest relative difference of an activation's losses {worst:.2e}")
    return worst <= 1e-5


def main():
    program, check = sys.argv[1], "--check" in sys.argv
    if not os.path.exists(data_of("")):
        make_data(data_of(""))
    if not os.path.exists(data_of("tasks")):
        make_data(data_of("tasks"), batches=10, tasks=True)
    losses = {model: train(model, initial_weights(program, model)) for model in MODELS}
    if not check:
        with open(LOSSES, "w", newline="") as f:
            table = csv.writer(f, lineterminator="\n")
            table.writerow(losses)
            table.writerows(zip(*losses.values()))
    else:
        with open(LOSSES) as f:
            rows = list(csv.DictReader(f))
        assert len(rows) == STEPS
        worst = max(abs(losses[model][i] / float(row[model]) - 1) for i, row in enumerate(rows) for model in MODELS)
        print(f"largest relative difference {worst:.2e}")
        sys.exit(worst > 1e-9 or not check_activations(program))


if __name__ == "__main__":
    main()
