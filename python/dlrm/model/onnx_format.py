"""The ONNX graph of a trained model. See export.py."""
import os
import shutil

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import trained

OPSET = 13


class Graph:
    """Collects nodes and weights. Each method adds a node and returns the name of its result."""

    def __init__(self):
        self.nodes, self.weights, self.inputs = [], [], []

    def input(self, name, kind, shape):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, name, array):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def numbers(self, *values):
        return self.constant(f"/numbers/{len(self.weights)}", np.array(values, np.int64))

    def scalar(self, value):
        return self.constant(f"/number/{len(self.weights)}", np.float32(value))

    def node(self, kind, *inputs, **attributes):
        name = f"/{kind.lower()}/{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(self, x, name, weight, bias):
        return self.node("Gemm", x, self.constant(name + "/weight", weight),
                         self.constant(name + "/bias", bias), transB=1)

    def layer_norm(self, x, name, scale, shift):
        off = self.node("Sub", x, self.node("ReduceMean", x, axes=[1], keepdims=1))
        variance = self.node("ReduceMean", self.node("Mul", off, off), axes=[1], keepdims=1)
        spread = self.node("Sqrt", self.node("Add", variance, self.scalar(trained.LAYER_NORM_EPS)))
        scaled = self.node("Mul", self.node("Div", off, spread), self.constant(name + "/weight", scale))
        return self.node("Add", scaled, self.constant(name + "/bias", shift))

    def activate(self, kind, z):
        if kind == "silu":
            return self.node("Mul", z, self.node("Sigmoid", z))
        if kind == "gelu":
            cube = self.node("Mul", self.node("Mul", self.node("Mul", z, z), z), self.scalar(0.044715))
            inner = self.node("Mul", self.node("Add", z, cube), self.scalar(np.sqrt(2 / np.pi)))
            half = self.node("Mul", z, self.scalar(0.5))
            return self.node("Mul", half, self.node("Add", self.node("Tanh", inner), self.scalar(1)))
        return self.node({"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}[kind], z)


def mlp(graph, model, name, x, activate_last):
    layers, norms = model.layers(name), model.norms(name)
    for i, (weight, bias) in enumerate(layers):
        x = graph.linear(x, f"{name}/{i}", weight, bias)
        if norms[i]:
            x = graph.layer_norm(x, f"{name}/{i}/norm", *norms[i])
        if activate_last or i + 1 < len(layers):
            x = graph.activate(model.activation, x)
    return x


def bag(graph, feature):
    """The ids of a feature with 0 for -1, and a 1 for each that is not -1, otherwise 0."""
    ids = graph.input(feature.name, TensorProto.INT64, ["b", f"ids_of_{feature.name}"])
    missing = graph.node("Less", ids, graph.numbers(0))
    there = graph.node("Cast", graph.node("Not", missing), to=TensorProto.FLOAT)
    return graph.node("Max", ids, graph.numbers(0)), factors(graph, feature, there), there


def factors(graph, feature, there):
    """What rows are multiplied by."""
    if not feature.weighted:
        return there
    weights = graph.input(f"weights_of_{feature.name}", TensorProto.FLOAT, ["b", f"ids_of_{feature.name}"])
    return graph.node("Mul", there, weights)


def pool(graph, feature, ids_and_factors, table):
    """Combines the rows of ids that are not -1."""
    ids, factors_of_rows, there = ids_and_factors
    rows = graph.node("Gather", table, ids, axis=0)
    if feature.pooling == "max":
        return largest(graph, rows, there)
    masked = graph.node("Mul", rows, graph.node("Unsqueeze", factors_of_rows, graph.numbers(2)))
    total = graph.node("ReduceSum", masked, graph.numbers(1), keepdims=0)
    if feature.pooling == "sum":
        return total
    count = graph.node("ReduceSum", there, graph.numbers(1), keepdims=1)
    return graph.node("Div", total, graph.node("Max", count, graph.scalar(1)))


def largest(graph, rows, there):
    """The maximum of each column over the rows that are there, 0 if none is."""
    is_there = graph.node("Cast", graph.node("Unsqueeze", there, graph.numbers(2)), to=TensorProto.BOOL)
    masked = graph.node("Where", is_there, rows, graph.scalar(-np.inf))
    any_is_there = graph.node("Cast", graph.node("ReduceMax", there, axes=[1], keepdims=1), to=TensorProto.BOOL)
    return graph.node("Where", any_is_there, graph.node("ReduceMax", masked, axes=[1], keepdims=0), graph.scalar(0))


def stack(graph, vectors):
    return graph.node("Concat", *[graph.node("Unsqueeze", v, graph.numbers(1)) for v in vectors], axis=1)


def dot(graph, model, x, e):
    n = len(x + e)
    v = stack(graph, x + e)
    products = graph.node("MatMul", v, graph.node("Transpose", v, perm=[0, 2, 1]))
    i, j = np.tril_indices(n, -1)
    flat = graph.node("Reshape", products, graph.numbers(-1, n * n))
    return graph.node("Concat", *x, graph.node("Gather", flat, graph.numbers(*(i * n + j)), axis=1), axis=1)


def fm(graph, model, x, e):
    v = stack(graph, x + e)
    total = graph.node("ReduceSum", v, graph.numbers(1), keepdims=0)
    squares = graph.node("ReduceSum", graph.node("Mul", v, v), graph.numbers(1), keepdims=0)
    twice = graph.node("Sub", graph.node("Mul", total, total), squares)
    half = graph.node("Mul", graph.node("ReduceSum", twice, graph.numbers(1), keepdims=1), graph.scalar(0.5))
    return graph.node("Concat", *x, *e, half, axis=1)


def cross(graph, model, x, e):
    z = x0 = graph.node("Concat", *x, *e, axis=1)
    for i, (matrices, bias) in enumerate(model.cross_layers()):
        product = z
        if len(matrices) == 2:
            product = graph.node("Gemm", z, graph.constant(f"cross/{i}/v", matrices[0]), transB=1)
        name = "u" if len(matrices) == 2 else "w"
        gate = graph.linear(product, f"cross/{i}/{name}", matrices[-1], bias)
        z = graph.node("Add", graph.node("Mul", x0, gate), z)
    return z


def concat(graph, model, x, e):
    window = model.interaction.get("average_pool", 0)
    if window:
        width = sum(model.table(f.table).shape[1] for f in model.features)
        matrix = trained.pooling_matrix(width, window).astype(np.float32)
        e = [graph.node("MatMul", graph.node("Concat", *e, axis=1), graph.constant("average_pool", matrix))]
    last = model.interaction.get("order") == "dense_last"
    return graph.node("Concat", *(e + x if last else x + e), axis=1)


INTERACTIONS = {"dot": dot, "fm": fm, "cross": cross, "concat": concat}


def linear(graph, model, bags):
    """What the weights of ids and of dense features add to each logit."""
    parts = []
    for feature, ids in zip(model.features, bags):
        weights = graph.constant(f"linear/{feature.name}", model.linear_weights(feature))
        parts.append(pool(graph, feature, ids, weights))
    if model.dense_features:
        weights = graph.constant("linear_dense", model.arrays["linear_dense/weight"])
        parts.append(graph.node("Gemm", "dense", weights, transB=1))
    return graph.node("Sum", *parts)


def mixtures(graph, model, z):
    """What each task's tower sees: the experts' outputs by the shares of its gate."""
    experts, tasks = model.experts(), len(model.tasks)
    width = len(model.layers(experts[0])[-1][1])
    outputs = [mlp(graph, model, expert, z, activate_last=True) for expert in experts]
    stacked = graph.node("Reshape", graph.node("Concat", *outputs, axis=1), graph.numbers(-1, len(experts), width))
    gates = graph.constant("gates", model.arrays["gates/weight"])
    logits = graph.node("Reshape", graph.node("Gemm", z, gates, transB=1), graph.numbers(-1, tasks, len(experts)))
    mixed = graph.node("MatMul", graph.node("Softmax", logits, axis=-1), stacked)
    return [graph.node("Reshape", graph.node("Gather", mixed, graph.numbers(task), axis=1), graph.numbers(-1, width))
            for task in range(tasks)]


def make(model):
    graph = Graph()
    x = []  # X, unless the model has no dense features
    tables = {name: graph.constant(f"tables/{name}", model.table(name)) for name in model.tables}
    if model.dense_features:
        dense = graph.input("dense", TensorProto.FLOAT, ["b", model.dense_features])
        x = [mlp(graph, model, "mlp/bottom", dense, activate_last=True)]
    bags = [bag(graph, feature) for feature in model.features]
    e = [pool(graph, feature, ids, tables[feature.table]) for feature, ids in zip(model.features, bags)]
    for i, matrix in enumerate(model.projections()):
        if matrix is not None:
            name = f"projection/{model.features[i].name}"
            e[i] = graph.node("Gemm", e[i], graph.constant(name, matrix), transB=1)
    z = INTERACTIONS[model.interaction["type"]](graph, model, x, e)
    wide = linear(graph, model, bags) if model.linear else None
    outputs = []
    inputs = mixtures(graph, model, z) if model.experts() else [z] * len(model.towers())
    names = [f"probability_{task}" for task in model.tasks] or ["probability"]
    for name, tower, x in zip(names, model.towers(), inputs):
        logits = mlp(graph, model, tower, x, activate_last=False)
        if wide:
            logits = graph.node("Add", logits, wide)
        flat = graph.node("Reshape", logits, graph.numbers(-1))
        graph.nodes.append(helper.make_node("Sigmoid", [flat], [name]))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b"]))
    whole = helper.make_graph(graph.nodes, "dlrm", graph.inputs, outputs, graph.weights)
    made = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="dlrm-train")
    made.ir_version = 7  # of this opset
    return made


def save(model, path):
    """Writes the graph to `path` and weights of 1 KiB or more to `path`.data, both complete or not at all."""
    data = path + ".data"
    folder = os.path.dirname(path) or "."
    unfinished = [os.path.join(folder, "." + os.path.basename(name) + ".partial") for name in (path, data)]
    try:
        made = make(model)
        onnx.save_model(made, unfinished[0], save_as_external_data=True, all_tensors_to_one_file=True,
                        location=os.path.basename(unfinished[1]), size_threshold=1024)
        rename_data(unfinished[0], os.path.basename(data))
        if os.path.exists(unfinished[1]):
            shutil.copymode(unfinished[0], unfinished[1])  # some versions of onnx make it private
        for name, final in zip(reversed(unfinished), (data, path)):
            if os.path.exists(name):
                os.replace(name, final)
    finally:
        for name in unfinished:
            if os.path.exists(name):
                os.unlink(name)
    onnx.checker.check_model(path)


def rename_data(path, name):
    """Makes the graph name another file of weights."""
    made = onnx.load_model(path, load_external_data=False)
    for weight in made.graph.initializer:
        for entry in weight.external_data:
            if entry.key == "location":
                entry.value = name
    with open(path, "wb") as file:
        file.write(made.SerializeToString())
