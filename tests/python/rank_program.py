#!/usr/bin/env python3
"""What one rank does in package_test.py: rank_program.py CASE ARGUMENT..., in a folder of the test's."""
import sys

import numpy as np
import torch

import bags
import dlrm


def make(plan, optimizer="adagrad"):
    return dlrm.ShardedEmbeddings(bags.table_list(), {"type": optimizer, "lr": bags.LR}, batch_size=bags.MOST,
                                  plan=plan, seed=3)


def tensors(step):
    return [torch.from_numpy(a) for a in bags.local(step, dlrm.rank(), dlrm.size())]


def train_step(tables, step):
    ids, offsets, targets, weights = tensors(step)
    pooled = tables(ids, offsets, weights)
    kept = pooled.detach().clone()
    (0.5 * (pooled - targets) ** 2).sum(1).mean().backward()
    return kept


def expect(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), f"{text!r} is not in {error!r}"
        return
    raise AssertionError(f"no {kind.__name__}: {text}")


def save_pooled(name, steps):
    np.savez(f"{name}.{dlrm.size()}.{dlrm.rank()}.npz", *[s.numpy() for s in steps])


def initial(plan, folder):
    """Saves rows that `init` filled."""
    tables = [{"name": "zero", "rows": 7, "init": {"type": "zero"}},
              {"name": "uniform", "rows": 301, "init": {"type": "uniform", "scale": 0.25}},
              {"name": "normal", "rows": 301, "init": {"type": "normal", "scale": 2}}]
    dlrm.ShardedEmbeddings(tables, {"type": "sgd", "lr": 1}, batch_size=4, dim=16, plan=plan).save(folder)


def train(plan, folder, first, last):
    """Trains steps [first, last) from the checkpoint in `folder`, if there is one, and saves there."""
    first, last = int(first), int(last)
    tables = make(plan)
    own = {"dense/line": torch.arange(3.0) - last, "dense/0/weight": torch.full((2, 5), float(last))}
    if first > 0:
        read = {name: torch.empty_like(tensor) for name, tensor in own.items()}
        tables.load(folder, read)
        assert all(torch.equal(read[name], tensor + s * (last - first)) for (name, tensor), s in zip(own.items(), (1, -1)))
        expect(dlrm.Error, "dense/line", lambda: make(plan).load(folder, {"dense/line": torch.zeros(4)}))
        expect(dlrm.Error, "dense/none", lambda: make(plan).load(folder, {"dense/none": torch.zeros(4)}))
        expect(ValueError, "contiguous", lambda: tables.load(folder, {"dense/line": torch.zeros(6)[::2]}))
        expect(ValueError, "tables/", lambda: tables.load(folder, {"tables/one/weight": torch.zeros(1, 1)}))
        weights = make("auto")
        weights.load(folder, weights_only=True)
        assert weights.step == 0
    else:
        tables.save(folder)
    assert tables.step == first and tables.width == bags.WIDTH and tables.features == list(bags.TABLES)
    save_pooled("pooled", [train_step(tables, step) for step in range(first, last)])
    assert tables.step == last
    tables.save(folder, own, keep=9)


def whole_model(config, initial, folder):
    """Saves a whole model under the names of dlrm-train."""
    import dlrm_model
    import yaml
    with open(config) as f:
        config = yaml.safe_load(f)
    embeddings = dlrm.ShardedEmbeddings(config["model"]["tables"], config["train"]["sparse_optimizer"],
                                        batch_size=64, dim=config["model"]["embedding_dim"])
    model = dlrm_model.DLRM(embeddings, config["model"])
    model.load(initial)
    embeddings.save(folder, {f"mlp/{part}/{i // 2}/{name}": tensor for part in ("bottom", "top")
                             for i, layer in enumerate(getattr(model, part)) for name, tensor in layer.named_parameters()})


def errors():
    """A bad batch raises one error on every rank, and changes nothing: the weights are those of `train`."""
    tables = make("row")
    last = dlrm.size() - 1
    ids, offsets, targets, weights = tensors(0)
    bad = ids.clone()
    if dlrm.rank() == last:
        bad[-1] = 11
    expect(dlrm.Error, "sample 6 of the global batch, feature mean: id 11 is not in [0, 11)",
           lambda: tables(bad, offsets, weights))
    bad[-1] = -1
    expect(dlrm.Error, "feature mean: id -1 is not in [0, 11)", lambda: tables(bad, offsets, weights))
    falling = offsets.clone()
    falling[1] = 99
    expect(dlrm.Error, "offsets must not fall", lambda: tables(ids, falling, weights))
    expect(dlrm.Error, "3 features of", lambda: tables(ids, offsets[:-1], weights))
    expect(dlrm.Error, "a global batch of", lambda: tables(torch.tensor([]).long(), torch.zeros(3 * 9 + 1).long()))
    expect(ValueError, "float32", lambda: tables(ids.float(), offsets, weights))
    expect(ValueError, "runs on CPUs", lambda: tables(ids.to("meta"), offsets, weights))
    expect(dlrm.Error, "each id needs one", lambda: tables(ids, offsets))
    expect(ValueError, "weights are torch.float64", lambda: tables(ids, offsets, weights.double()))
    expect(dlrm.Error, "adagrd", lambda: make("row", "adagrd"))
    expect(dlrm.Error, "no checkpoint", lambda: tables.load("nowhere"))
    if dlrm.size() > 1:
        alone = torch.zeros(3 * (1 + dlrm.rank()) + 1).long()
        expect(dlrm.Error, "rank 0 has 1 samples; its part of a global batch of 6 is 2",
               lambda: tables(torch.tensor([]).long(), alone))
    first = tables(ids, offsets, weights)
    tables(ids, offsets, weights)
    expect(RuntimeError, "followed by another", lambda: first.sum().backward())
    pooled = tables(ids, offsets, weights)
    loss = (0.5 * (pooled - targets) ** 2).sum(1).mean()
    loss.backward(retain_graph=True)
    expect(RuntimeError, "followed by another", lambda: loss.backward())
    with torch.no_grad():
        tables(ids, offsets, weights)
    save_pooled("after_errors", [train_step(tables, step) for step in range(1, 6)])


def gradients():
    """Dense gradients and the loss are those of the global mean; lists are what flat tensors are."""
    tables = make("table")
    for step in range(len(bags.SIZES)):
        ids, offsets, targets, weights = tensors(step)
        b, samples = len(targets), bags.SIZES[step]
        with torch.no_grad():
            pooled = tables(ids, offsets, weights).clone()
            own = [offsets[f * b:(f + 1) * b + 1] for f in range(3)]
            listed = [weights[o[0]:o[-1]] if name == bags.WEIGHTED else None for name, o in zip(bags.TABLES, own)]
            lists = tables([ids[o[0]:o[-1]] for o in own], [o - o[0] for o in own], listed)
            assert torch.equal(pooled, lists) and not lists.requires_grad
        tables(ids, offsets, weights)
        weight = torch.zeros(bags.WIDTH, requires_grad=True)
        loss = ((targets * weight).sum(1) + targets[:, 0]).mean()
        loss.backward()
        mean = tables.average_gradients([weight], loss)
        everything = torch.from_numpy(bags.batch(step)[1])
        assert torch.allclose(weight.grad, everything.mean(0), atol=1e-6), (samples, weight.grad, everything.mean(0))
        assert torch.allclose(mean, everything[:, 0].mean(), atol=1e-6)


def shares_memory():
    tables = make("table")
    ids, offsets, _, weights = tensors(0)
    with torch.no_grad():
        first, second = tables(ids, offsets, weights), tables(ids, offsets, weights)
    assert first.data_ptr() == second.data_ptr()
    (kept,) = [tables(ids, offsets, weights)]
    del tables
    assert torch.isfinite(kept).all()


def memory():
    """A thousand steps allocate nothing that stays."""
    tables = make("row")

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    for step in range(200):
        train_step(tables, step)
    before = resident()
    for step in range(1000):
        train_step(tables, step)
        tables.average_gradients([])
    grown = resident() - before
    assert grown < 1 << 20, f"{grown} bytes more"


def fails(kind):
    """One rank fails, and the others wait for it."""
    tables = make("row")
    print("printed before", flush=False)
    if kind == "id":
        ids, offsets, _, weights = tensors(0)
        tables(ids + 1000, offsets, weights)
    if dlrm.rank() == dlrm.size() - 1:
        raise KeyError("of the\nprogram")
    train_step(tables, 0)


def stalls():
    """A rank that makes no more calls is named."""
    import time
    dlrm.init(timeout=2)
    tables = make("row")
    if dlrm.rank() == 1:
        time.sleep(100)
    train_step(tables, 0)


def communicator():
    """The ranks of a communicator, in its order; MPI is the program's before and after."""
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    comm = world.Split(color=world.rank == 0, key=-world.rank)
    if world.rank > 0:
        dlrm.init(comm)
        assert (dlrm.rank(), dlrm.size()) == (comm.rank, comm.size) and dlrm.rank() == world.size - 1 - world.rank
        train_step(make("row"), 0)
        expect(RuntimeError, "called before", dlrm.init)
        dlrm.session.session().finish()
    assert world.allreduce(1) == world.size


def dataset(path, tables, batch_size, shuffle):
    """This rank's ids, as batches and as batches of a DataLoader."""
    data = dlrm.Dataset(path, eval(tables), int(batch_size), shuffle=shuffle == "yes", seed=5, epochs=2)
    batches = list(data)
    assert len(batches) == len(data)
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
        again = list(loader)
        assert len(again) == len(batches)
        for one, other in zip(batches, again):
            assert all(torch.equal(a, b) for a, b in zip(one, other))
    np.savez(f"batches.{dlrm.size()}.{dlrm.rank()}.npz", *[a.numpy() for batch in batches for a in batch])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
