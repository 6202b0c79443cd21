"""The options of tables and of datasets, as the configuration that the C++ library checks."""
import json
import typing

from . import _dlrm


def config(name: str, tables: typing.Iterable[typing.Mapping[str, typing.Any]], dim: int, batch_size: int,
           sections: typing.Mapping[str, typing.Mapping[str, typing.Any]]) -> _dlrm.Config:
    """`sections` are merged into the configuration. Errors begin with `name`."""
    known: typing.Dict[str, typing.Dict[str, typing.Any]] = {
        "model": {"embedding_dim": dim, "bottom_mlp": [], "top_mlp": [1], "interaction": "concat",
                  "dense_features": 1, "tables": [dict(table) for table in tables]},
        "data": {"source": "synthetic"},
        "train": {"global_batch_size": batch_size, "steps": 0},
    }
    for section, values in sections.items():
        known.setdefault(section, {}).update(values)
    return _dlrm.parse_config(json.dumps(known), name)
