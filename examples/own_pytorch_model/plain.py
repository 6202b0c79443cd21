#!/usr/bin/env python3
"""Trains a DLRM of plain PyTorch in one process: plain.py CONFIG [CHECKPOINT]

CONFIG is one of dlrm-train. The initial weights are those of CHECKPOINT, if it is given."""
import sys

import torch
import yaml

import dlrm
import dlrm_model

with open(sys.argv[1]) as file:
    config = yaml.safe_load(file)
tables, dim = config["model"]["tables"], config["model"]["embedding_dim"]
train, batch_size = config["train"], config["train"]["global_batch_size"]

torch.manual_seed(1)
data = dlrm.Dataset(config["data"]["train"], tables, batch_size)
embeddings = dlrm_model.PlainTables(tables, dim)
model = dlrm_model.DLRM(embeddings, config["model"])
if len(sys.argv) > 2:
    model.load(sys.argv[2])
optimizer = torch.optim.Adagrad(model.parameters(), lr=train["dense_optimizer"]["lr"])
for step, batch in enumerate(data, 1):
    logits = model(batch.dense, batch.ids, batch.offsets)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss:.9g}")
