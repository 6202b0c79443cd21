"""Embedding tables that are sharded over the ranks of a job, for models written in PyTorch."""
from ._dlrm import Error
from .dataset import Dataset
from .embeddings import ShardedEmbeddings
from .session import init, rank, size

__all__ = ["Dataset", "Error", "ShardedEmbeddings", "init", "rank", "size"]
