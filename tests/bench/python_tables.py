#!/usr/bin/env python3
"""Lookup, gradient and update of dlrm.ShardedEmbeddings beside nn.EmbeddingBag(sparse=True) with torch.optim.Adagrad,
and beside FBGEMM's table-batched embeddings if the package fbgemm_gpu is installed: samples per second on one rank, taken
in turn, and ratios. Only the fastest steps mean much on a machine that does other work.

    launch/install_deps.sh build peers && launch/build.sh cpu python_package
    PYTHONPATH=build/cpu/package build/peers/bin/python3 tests/bench/python_tables.py [--tables 26] [--rows 100000]
        [--dim 16] [--hotness 1] [--batch 128 2048] [--rounds 10] [--seconds 0.5] [--threads N]
"""
import argparse
import importlib.util
import statistics
import time

import torch

import dlrm

LR = 0.01
MOST_IDS = 1 << 20


def plain(arguments, batch):
    bags = [torch.nn.EmbeddingBag(arguments.rows, arguments.dim, mode="sum", sparse=True, include_last_offset=True)
            for _ in range(arguments.tables)]
    optimizer = torch.optim.Adagrad([bag.weight for bag in bags], lr=LR)

    def step(ids, offsets, gradient):
        own = offsets[:batch + 1]
        pooled = torch.cat([bag(part, own) for bag, part in zip(bags, ids.chunk(arguments.tables))], 1)
        optimizer.zero_grad()
        pooled.backward(gradient)
        optimizer.step()
    return step


def fbgemm(arguments, _):
    """FBGEMM's fused lookup and exact row-by-row Adagrad, in fp32 on the CPU; None where it is not installed."""
    if not importlib.util.find_spec("fbgemm_gpu"):
        return None
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
    shape = (arguments.rows, arguments.dim, EmbeddingLocation.HOST, ComputeDevice.CPU)
    tables = SplitTableBatchedEmbeddingBagsCodegen([shape] * arguments.tables, optimizer=EmbOptimType.EXACT_ADAGRAD,
                                                   learning_rate=LR, pooling_mode=PoolingMode.SUM)
    tables.init_embedding_weights_uniform(-0.01, 0.01)

    def step(ids, offsets, gradient):
        tables(ids, offsets).backward(gradient)
    return step


def sharded(arguments, batch):
    tables = [{"name": f"t{i}", "rows": arguments.rows, "hotness": arguments.hotness} for i in range(arguments.tables)]
    embeddings = dlrm.ShardedEmbeddings(tables, {"type": "adagrad", "lr": LR}, batch_size=batch, dim=arguments.dim)

    def step(ids, offsets, gradient):
        embeddings(ids, offsets).backward(gradient)
    return step


def batches(arguments, batch):
    """Ids of a power law, as synthetic data has them. Together the batches use far more rows than caches hold."""
    count = max(16, MOST_IDS // (batch * arguments.tables * arguments.hotness))
    bags = arguments.tables * batch
    offsets = torch.arange(bags + 1) * arguments.hotness
    gradient = torch.randn(batch, arguments.tables * arguments.dim) / batch
    return [((torch.rand(bags * arguments.hotness) ** 4 * arguments.rows).long(), offsets, gradient)
            for _ in range(count)]


def step_seconds(step, inputs, seconds):
    """The times of single steps, for about this long."""
    times = []
    while sum(times) < seconds:
        start = time.perf_counter()
        step(*inputs[len(times) % len(inputs)])
        times.append(time.perf_counter() - start)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("tables", 26), ("rows", 100000), ("dim", 16), ("hotness", 1), ("rounds", 10), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 2048])
    parser.add_argument("--seconds", type=float, default=0.5)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    dlrm.init(threads=arguments.threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; samples/s of the median step and of the fastest")
    for batch in arguments.batch:
        inputs = batches(arguments, batch)
        steps = {"EmbeddingBag": plain(arguments, batch), "FBGEMM": fbgemm(arguments, batch),
                 "ShardedEmbeddings": sharded(arguments, batch)}
        steps = {name: step for name, step in steps.items() if step}
        times = {name: [] for name in steps}
        for step in steps.values():
            step_seconds(step, inputs, arguments.seconds)
        for _ in range(arguments.rounds):
            for name, step in steps.items():
                times[name] += step_seconds(step, inputs, arguments.seconds)
        for name, own in times.items():
            print(f"batch {batch}: {name} {batch / statistics.median(own):.0f}, {batch / min(own):.0f}")
        ours = times.pop("ShardedEmbeddings")
        for name, own in times.items():
            print(f"batch {batch}: ShardedEmbeddings over {name} {statistics.median(own) / statistics.median(ours):.2f}, "
                  f"{min(own) / min(ours):.2f}")


if __name__ == "__main__":
    main()
