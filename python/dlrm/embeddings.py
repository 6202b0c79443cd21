"""Sharded tables as a module of PyTorch."""
from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence, Union

import torch
from torch.autograd.function import once_differentiable

from . import _dlrm, options
from .session import session

Tensors = Union[torch.Tensor, Sequence[Any]]


class _Lookup(torch.autograd.Function):
    """`anchor` requires a gradient, so that autograd calls backward; ids have none."""

    @staticmethod
    def forward(ctx, anchor, module, ids, offsets, weights):
        pooled = module._lookup(ids, offsets, weights)
        ctx.module, ctx.batch = module, module._batch
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        ctx.module._update(ctx.batch, gradient)
        return None, None, None, None, None


class ShardedEmbeddings(torch.nn.Module):
    """Tables sharded over the ranks by a plan. All ranks make the same calls.

    tables      a list of dicts with the keys of `model.tables` in a config: name, rows, and optionally dim,
                hotness, pooling, weights, init, l2, dtype, features, count
    optimizer   the keys of `train.sparse_optimizer`: {"type": "adagrad", "lr": 0.01}
    batch_size  the most samples of a global batch
    dim         the width of tables that have none of their own
    plan        auto, table, row, column, grid or data_parallel; a dict with the keys of `sharding`; or the
                path of a plan.json
    seed        of the initial rows, which are uniform in ±1/sqrt(rows) in tables without `init`

    Rows are updated within backward(), by the gradient of the mean over the global batch, if the loss is the
    mean over this rank's samples. They are no parameters: parameters() and state_dict() are without them.
    """

    def __init__(self, tables: Iterable[Mapping[str, Any]], optimizer: Mapping[str, Any], *, batch_size: int,
                 dim: int = 16, plan: str | Mapping[str, Any] = "auto", seed: int = 1):
        super().__init__()
        sections = {"train": {"sparse_optimizer": dict(optimizer), "seed": seed}, "sharding": _sharding(plan)}
        checked = options.config("dlrm.ShardedEmbeddings", tables, dim, batch_size, sections)
        self._session = session()
        self._tables = _dlrm.Tables(self._session, checked)
        self._anchor = torch.zeros((), requires_grad=True)
        self._batch = 0  # counts lookups
        self.lr = self._tables.learning_rate
        self.features = self._tables.features
        self.width = self._tables.width

    def forward(self, ids: Tensors, offsets: Tensors, weights: Tensors | None = None) -> torch.Tensor:
        """Pools the bags of this rank's b samples: [b, width], the columns of the features in their order.

        ids, offsets  int64 on the CPU. Either one tensor each: ids by feature, then by sample, and [features·b + 1]
                      offsets, as batches of dlrm.Dataset have them. Or a list with a tensor for each feature,
                      with [b + 1] offsets, as EmbeddingBag takes them with include_last_offset=True.

        weights       float32, of the ids, if a feature has `weights: true`; those of other features are not used. In
                      a list, None stands for a feature without weights. They get no gradient.

        The result is this object's memory: the next call overwrites it. With gradients enabled, the batch
        waits for backward(); the next call drops it. A bad id or shape raises dlrm.Error on every rank, and
        nothing has changed then.
        """
        if isinstance(ids, (list, tuple)):
            weights = _joined_weights(ids, weights)
            ids, offsets = _joined(ids, offsets)
        ids, offsets, weights = _checked("ids", ids), _checked("offsets", offsets), _checked_weights(weights)
        if torch.is_grad_enabled():
            return _Lookup.apply(self._anchor, self, ids, offsets, weights)
        pooled = self._lookup(ids, offsets, weights)
        self._tables.drop()
        return pooled

    def average_gradients(self, parameters: torch.nn.Module | Iterable[torch.Tensor],
                          loss: torch.Tensor | None = None) -> torch.Tensor | None:
        """Makes gradients of `parameters` (a module, or tensors) those of the mean over the last global batch,
        if the loss was the mean over this rank's samples. Ranks have equal weights afterwards if they had before.
        Returns the mean of `loss` over the global batch."""
        if isinstance(parameters, torch.nn.Module):
            parameters = parameters.parameters()
        values = [p.grad for p in parameters if p.grad is not None]
        if loss is not None:
            loss = loss.detach().clone()
            values.append(loss)
        if not values:
            return None
        share = self._tables.share
        flat = torch.cat([v.reshape(-1).to(torch.float32) for v in values])
        # Without samples the mean is not a number.
        flat = flat.mul_(share) if share > 0 else flat.zero_()
        self._session.sum(flat.numpy())
        for value, mean in zip(values, flat.split([v.numel() for v in values])):
            value.copy_(mean.view_as(value))
        return loss

    @property
    def step(self) -> int:
        """Updates done."""
        return self._tables.step

    @property
    def plan(self) -> str:
        """The plan as JSON."""
        return self._tables.plan

    def save(self, directory: str, tensors: Mapping[str, torch.Tensor] | None = None, keep: int = 2) -> None:
        """Saves rows and optimizer state as directory/step_<9 digits>, and keeps the newest `keep`. `tensors` is a
        dict of further float32 tensors, equal on all ranks, by their names in the file: mlp/top/0/weight."""
        self._tables.save(str(directory), _arrays(tensors), keep)

    def load(self, directory: str, tensors: Mapping[str, torch.Tensor] | None = None,
             weights_only: bool = False) -> None:
        """Reads the newest good checkpoint of `directory`, saved by any number of ranks, by this class or by
        dlrm-train, and fills `tensors`. With weights_only, neither optimizer state of tables nor the number of
        steps."""
        self._tables.load(str(directory), _arrays(tensors), weights_only)

    def extra_repr(self) -> str:
        return f"features={self.features}, width={self.width}"

    def _lookup(self, ids, offsets, weights):
        self._batch += 1
        return torch.from_numpy(self._tables.forward(ids.numpy(), offsets.numpy(), weights.numpy()))

    def _update(self, batch, gradient):
        if batch != self._batch:
            raise RuntimeError("backward() of a batch whose lookup was followed by another: "
                               "call it before the next forward()")
        self._batch += 1  # a second backward() of this batch has nothing to update
        torch.mul(gradient, self._tables.share, out=torch.from_numpy(self._tables.gradient()))
        self._tables.update(self.lr)


def _sharding(plan):
    if isinstance(plan, dict):
        return plan
    return {"plan": str(plan)} if str(plan).endswith(".json") else {"strategy": plan}


def _checked(name, tensor):
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} are on {tensor.device}; dlrm.ShardedEmbeddings runs on CPUs, and takes tensors there")
    if tensor.dtype not in (torch.int64, torch.int32) or tensor.dim() != 1:
        raise ValueError(f"{name} are {tensor.dtype} of shape {list(tensor.shape)}; needs int64 of one dimension")
    return tensor.to(torch.int64).contiguous()


def _checked_weights(weights):
    if weights is None:
        return torch.empty(0)
    if weights.device.type != "cpu" or weights.dtype != torch.float32 or weights.dim() != 1:
        raise ValueError(f"weights are {weights.dtype} of shape {list(weights.shape)} on {weights.device}; needs "
                         "float32 of one dimension on the CPU")
    return weights.detach().contiguous()


def _joined_weights(ids, weights):
    """One tensor, from those of the features."""
    if weights is None:
        return None
    if len(weights) != len(ids):
        raise ValueError(f"ids of {len(ids)} features, weights of {len(weights)}")
    for feature, (own, given) in enumerate(zip(ids, weights)):
        if given is not None and len(given) != len(own):
            raise ValueError(f"feature {feature}: {len(given)} weights for {len(own)} ids")
    return torch.cat([torch.ones(len(own)) if given is None else given for own, given in zip(ids, weights)])


def _arrays(tensors):
    """Arrays in the memory of the tensors."""
    arrays = {}
    for name, tensor in (tensors or {}).items():
        tensor = tensor.detach()
        if tensor.dtype != torch.float32 or not tensor.is_contiguous() or tensor.dim() not in (1, 2):
            raise ValueError(f"{name} is {tensor.dtype} of shape {list(tensor.shape)}; needs contiguous float32 of one "
                             "or two dimensions")
        if name.startswith(("/", "tables/")):
            raise ValueError(f"{name}: names begin neither with / nor with tables/")
        arrays[name] = tensor.numpy()
    return arrays


def _joined(ids, offsets):
    """One tensor of each, from those of the features."""
    if len(ids) != len(offsets):
        raise ValueError(f"ids of {len(ids)} features, offsets of {len(offsets)}")
    starts, first = [], 0
    for feature, (own, bags) in enumerate(zip(ids, offsets)):
        if len(bags) == 0 or bags[-1] != len(own):
            raise ValueError(f"feature {feature}: the last of its [b + 1] offsets must be {len(own)}, its ids")
        starts.append(bags[:-1] + first)
        first += len(own)
    return torch.cat(list(ids)), torch.cat(starts + [torch.tensor([first])])
