"""Dataset files of dlrm-train from arrays or DataFrames, and back (docs/python.md). Needs NumPy and h5py.

    from dlrm.dataset import write, write_config
    encodings = write("train.h5", frame, label="click", dense=["age"], sparse=["user", "tags"])
    write_config("mine.yaml", "train.h5")
"""
from .config import write_config
from .encodings import Dictionary, Hashed, Integers
from .reader import Batch, Dataset, FeatureInfo
from .values import Bags, DatasetError
from .writer import Writer, write

__all__ = ["Bags", "Batch", "Dataset", "DatasetError", "Dictionary", "FeatureInfo", "Hashed", "Integers", "Writer",
           "write", "write_config"]
