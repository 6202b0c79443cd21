"""dlrm-train in Python: datasets, imports, exported models, runs compared and drawn, sweeps, and embedding tables that
are sharded over the ranks of a job, for models written in PyTorch.

The names below but Encoder need PyTorch and the binding, which is loaded when one of them is first used. Encoder and
the subpackages need neither.
"""
import importlib
import importlib.util
import typing

if typing.TYPE_CHECKING:
    from ._dlrm import Error as Error
    from .batches import Dataset as Dataset
    from .encoder import Encoder as Encoder
    from .embeddings import ShardedEmbeddings as ShardedEmbeddings
    from .session import init as init, rank as rank, size as size

_MODULES = {"Dataset": "batches", "Encoder": "encoder", "Error": "_dlrm", "ShardedEmbeddings": "embeddings", "init": "session",
            "rank": "session", "size": "session"}
__all__ = [*_MODULES]


def __getattr__(name: str) -> typing.Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "Encoder" and importlib.util.find_spec("._dlrm", __name__) is None:
        raise ImportError(f"dlrm.{name} needs the compiled part of the package: pip install . in the sources, or "
                          "build/PRESET/package of a build on Python's path")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
