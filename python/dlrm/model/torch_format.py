"""The PyTorch source and weights of a trained model. See export.py."""
import pprint

import torch

from . import trained

SOURCE = '''"""A model that was trained by dlrm-train.

    model = Model.load("{weights}")
    probabilities = model(dense, bags){one}.sigmoid()

dense: float32 [b, {dense}]. bags: for each feature int64 ids [b, hotness], or (ids [n], offsets [b + 1]).
{about_weights}"""
import torch
from torch.nn import functional

TABLES = {tables}

# The features in the order of their vectors. Each names its table and how a bag's rows are combined.
FEATURES = {features}
{weighted}
# [out, in] of each layer.
BOTTOM = {bottom}
{top}


def activation(z):
    return {activation}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = torch.nn.ParameterList(torch.empty(rows, dim) for rows, dim in TABLES.values())
        self.bottom = torch.nn.ModuleList(torch.nn.Linear(n, out) for out, n in BOTTOM)
{top_init}{init}{norms}

    @classmethod
    def load(cls, path):
        model = cls()
        model.load_state_dict(torch.load(path, map_location="cpu"))
        return model.eval()

    def forward(self, dense, bags):
        """{returns}"""
        x = dense
{bottom_layers}
        e = [self.pool(feature, bags[feature], self.table(feature)) for feature in FEATURES]{project}
        z = self.interact(x, e)
{top_layers}
{linear}
    def table(self, feature):
        return self.tables[list(TABLES).index(FEATURES[feature][0])]

    def pool(self, feature, bag, weight):
        """The pooled rows of a feature, [b, dim]. Those of an empty bag are 0."""
        mode = FEATURES[feature][1]
{pool_weighted}        if isinstance(bag, tuple):
            return functional.embedding_bag(bag[0], weight, bag[1], mode=mode, include_last_offset=True)
        return functional.embedding_bag(bag, weight, mode=mode)

    def interact(self, x, e):
        """The input of the {top_name}."""
{interact}
'''

ABOUT_WEIGHTS = """\
For a feature in WEIGHTED (ids, float32 weights), both [b, hotness], or (ids [n], offsets [b + 1], weights [n]).
"""

WEIGHTED = """
# The features whose ids have weights, which multiply their rows.
WEIGHTED = {names}
"""

POOL_WEIGHTED = """\
        if feature in WEIGHTED:
            flat = len(bag) == 3
            return functional.embedding_bag(bag[0], weight, bag[1] if flat else None, mode=mode,
                                            per_sample_weights=bag[-1], include_last_offset=flat)
"""

ACTIVATIONS = {
    "relu": "torch.relu(z)",
    "gelu": 'functional.gelu(z, approximate="tanh")',
    "silu": "functional.silu(z)",
    "sigmoid": "torch.sigmoid(z)",
    "tanh": "torch.tanh(z)",
}

DOT = '''
v = torch.stack([x] + e, 1)
i, j = torch.tril_indices(v.shape[1], v.shape[1], -1)
return torch.cat([x, (v @ v.transpose(1, 2))[:, i, j]], 1)
'''

FM = '''
v = torch.stack([x] + e, 1)
fm = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1)).sum(1, keepdim=True)
return torch.cat([x] + e + [fm], 1)
'''

CROSS = '''
z = x0 = torch.cat([x] + e, 1)
for v, u in zip(self.cross_v, self.cross_u):
    z = x0 * u(v(z)) + z
return z
'''

# Vectors of another width than the others.
PROJECT = '''
        e = [p(v) for p, v in zip(self.projections, e)]'''

PROJECT_INIT = '''
        shapes = {shapes}
        self.projections = torch.nn.ModuleList(
            torch.nn.Linear(shape[1], shape[0], bias=False) if shape else torch.nn.Identity() for shape in shapes)'''

FULL_CROSS = '''
z = x0 = torch.cat([x] + e, 1)
for w in self.cross_w:
    z = x0 * w(z) + z
return z
'''

CROSS_INIT = '''
        self.cross_v = torch.nn.ModuleList(torch.nn.Linear({n}, {rank}, bias=False) for _ in range({layers}))
        self.cross_u = torch.nn.ModuleList(torch.nn.Linear({rank}, {n}) for _ in range({layers}))'''

FULL_CROSS_INIT = '''
        self.cross_w = torch.nn.ModuleList(torch.nn.Linear({n}, {n}) for _ in range({layers}))'''

# Loops over the layers of {part}, or over all but the last, which have an activation.
PLAIN_LAYERS = '''
for layer in self.{part}{which}:
    {value} = activation(layer({value}))
'''

NORMED_LAYERS = '''
for layer, norm in zip(self.{part}{which}, self.{part}_norms):
    {value} = activation(norm(layer({value})))
'''

TOP_INIT = """
self.top = torch.nn.ModuleList(torch.nn.Linear(n, out) for out, n in TOP)
"""

TOP_RETURN = """
return self.top[-1](z)[:, 0]{linear}
"""

TOWERS_INIT = """
self.towers = torch.nn.ModuleList(
    torch.nn.ModuleList(torch.nn.Linear(n, out) for out, n in sizes) for sizes in TOWERS.values())
"""

TOWERS_NORM_INIT = """
        self.towers_norms = torch.nn.ModuleList(
            torch.nn.ModuleList(torch.nn.LayerNorm(out, eps={eps}) for out, _ in sizes[:-1])
            for sizes in TOWERS.values())"""

TOWERS_FORWARD = """
logits = {{}}{wide}{mixed}
for t, task in enumerate(TOWERS):
    y = {input}
    for i, layer in enumerate(self.towers[t][:-1]):
        y = activation({layer})
    logits[task] = self.towers[t][-1](y)[:, 0]{linear}
return logits
"""

EXPERTS = """

# [out, in] of each layer of an expert, and the number of experts.
EXPERT = {sizes}
EXPERTS = {count}"""

EXPERTS_INIT = """
self.experts = torch.nn.ModuleList(
    torch.nn.ModuleList(torch.nn.Linear(n, out) for out, n in EXPERT) for _ in range(EXPERTS))
self.gates = torch.nn.Linear(EXPERT[0][1], len(TOWERS) * EXPERTS, bias=False)
"""

EXPERTS_NORM_INIT = """
        self.experts_norms = torch.nn.ModuleList(
            torch.nn.ModuleList(torch.nn.LayerNorm(out, eps={eps}) for out, _ in EXPERT[:-1]) for _ in range(EXPERTS))"""

# [b, tasks, n]: the experts' outputs by the shares of each task.
MIXED = """
shares = self.gates(z).reshape(len(z), len(TOWERS), EXPERTS).softmax(2)
mixed = shares @ torch.stack([self.expert(e, z) for e in range(EXPERTS)], 1)"""

EXPERT_FORWARD = """
    def expert(self, number, y):
        for i, layer in enumerate(self.experts[number]):
            y = activation({layer})
        return y
"""

# The last layer has no norm.
NORM_INIT = '''
        norms = [torch.nn.LayerNorm(out, eps={eps}) for out, _ in {sizes}[:-1]] + [torch.nn.Identity()]
        self.{part}_norms = torch.nn.ModuleList(norms)'''

LINEAR = '''
    def linear_part(self, dense, bags):
        """What weights of ids{and_dense} add to each logit, [b]."""
        pooled = [self.pool(feature, bags[feature], weight) for feature, weight in zip(FEATURES, self.linear)]
        return sum(pooled{dense})[:, 0]
'''

LINEAR_INIT = '''
        self.linear = torch.nn.ParameterList(torch.empty(TABLES[table][0], 1) for table, _ in FEATURES.values())'''

LINEAR_DENSE_INIT = '''
        self.linear_dense = torch.nn.Linear({dense}, 1, bias=False)'''

POOLED = '''
# Averages of {window} columns each. The first and the last window may have fewer.
e = torch.cat(e, 1)
left, right = {left}, {right}
sums = functional.pad(e, (left, right)).reshape(len(e), -1, {window}).sum(2)
columns = functional.pad(torch.ones_like(e[:1]), (left, right)).reshape(1, -1, {window}).sum(2)
e = [sums / columns]
'''


def concat(interaction, width):
    window = interaction.get("average_pool", 0)
    code = ""
    if window:
        missing = -width % window
        code = POOLED.format(window=window, left=missing // 2, right=missing - missing // 2)
    order = "e + [x]" if interaction.get("order") == "dense_last" else "[x] + e"
    return code + f"\nreturn torch.cat({order}, 1)\n"


def layer_loop(model, part, which, value):
    code = NORMED_LAYERS if any(model.norms("mlp/" + part)) else PLAIN_LAYERS
    return indented(code.format(part=part, which=which, value=value))


def norm_init(model, part):
    if not any(model.norms("mlp/" + part)):
        return ""
    return NORM_INIT.format(part=part, sizes=part.upper(), eps=trained.LAYER_NORM_EPS)


def indented(code):
    return "\n".join(" " * 8 + line for line in code.strip().split("\n") if line)


def shapes(model, mlp):
    return [tuple(weight.shape) for weight, _ in model.layers(mlp)]


def top_mlp(model):
    """The parts of the source that are about the top MLP."""
    linear = " + self.linear_part(dense, bags)" if model.linear else ""
    return {"one": "", "returns": "The logit of each sample, [b].", "top_name": "top layers",
            "top": "TOP = " + pprint.pformat(shapes(model, "mlp/top")), "top_init": indented(TOP_INIT),
            "top_layers": layer_loop(model, "top", "[:-1]", "z") + "\n" + indented(TOP_RETURN.format(linear=linear)),
            "norms": norm_init(model, "bottom") + norm_init(model, "top")}


def towers(model):
    """The same about the towers of several tasks."""
    sizes = {task: shapes(model, tower) for task, tower in zip(model.tasks, model.towers())}
    normed = any(norm for tower in model.towers() for norm in model.norms(tower))
    layer = "self.towers_norms[t][i](layer(y))" if normed else "layer(y)"
    norms = TOWERS_NORM_INIT.format(eps=trained.LAYER_NORM_EPS) if normed else ""
    wide = "\nwide = self.linear_part(dense, bags)" if model.linear else ""
    mixture = experts(model)
    forward = TOWERS_FORWARD.format(layer=layer, wide=wide, linear=" + wide" if model.linear else "",
                                    mixed=MIXED if mixture else "", input="mixed[:, t]" if mixture else "z")
    return {"one": f"[{model.tasks[0]!r}]".replace("'", '"'), "returns": "The logits of each task, [b], by its name.",
            "top_name": "towers", "top": "TOWERS = " + pprint.pformat(sizes, sort_dicts=False) + mixture.get("sizes", ""),
            "top_init": indented(TOWERS_INIT + mixture.get("init", "")),
            "top_layers": indented(forward) + "\n" + mixture.get("forward", ""),
            "norms": norm_init(model, "bottom") + norms + mixture.get("norms", "")}


def experts(model):
    """The parts of the source that are about experts, if there are any."""
    mlps = model.experts()
    if not mlps:
        return {}
    normed = any(norm for expert in mlps for norm in model.norms(expert))
    layer = "self.experts_norms[number][i](layer(y)) if i + 1 < len(EXPERT) else layer(y)" if normed else "layer(y)"
    return {"sizes": EXPERTS.format(sizes=shapes(model, mlps[0]), count=len(mlps)), "init": EXPERTS_INIT,
            "forward": EXPERT_FORWARD.format(layer=layer),
            "norms": EXPERTS_NORM_INIT.format(eps=trained.LAYER_NORM_EPS) if normed else ""}


def source(model, weights_name):
    """The text of a module with the class Model, whose weights are in the file `weights_name`."""
    kind, init = model.interaction["type"], ""
    width = sum(model.table(f.table).shape[1] for f in model.features)
    code = {"dot": DOT, "fm": FM, "cross": CROSS}.get(kind) or concat(model.interaction, width)
    if kind == "cross":
        layers = model.cross_layers()
        first = layers[0][0]
        if len(first) == 1:
            init, code = FULL_CROSS_INIT, FULL_CROSS
        else:
            init = CROSS_INIT
        init = init.format(n=first[0].shape[1], rank=first[0].shape[0], layers=len(layers))
    linear = ""
    if model.linear:
        init += LINEAR_INIT
        if model.dense_features:
            init += LINEAR_DENSE_INIT.format(dense=model.dense_features)
            linear = LINEAR.format(and_dense=" and of dense features", dense=", self.linear_dense(dense)")
        else:
            linear = LINEAR.format(and_dense="", dense="")
    if model.dense_features == 0:
        code = code.replace("torch.stack([x] + e, 1)", "torch.stack(e, 1)")
    shapes_of_projections = [matrix is not None and matrix.shape for matrix in model.projections()]
    project = ""
    if any(shapes_of_projections):
        project = PROJECT
        init += PROJECT_INIT.format(shapes=shapes_of_projections)
    weighted = [f.name for f in model.features if f.weighted]
    return SOURCE.format(
        about_weights=ABOUT_WEIGHTS if weighted else "", pool_weighted=POOL_WEIGHTED if weighted else "",
        weighted=WEIGHTED.format(names=pprint.pformat(weighted)) if weighted else "",
        project=project, weights=weights_name, dense=model.dense_features, init=init, interact=indented(code),
        linear=linear,
        bottom_layers=layer_loop(model, "bottom", "", "x"), **(towers(model) if model.tasks else top_mlp(model)),
        tables=pprint.pformat({name: model.table(name).shape for name in model.tables}, sort_dicts=False),
        features=pprint.pformat({f.name: (f.table, f.pooling) for f in model.features}, sort_dicts=False),
        bottom=pprint.pformat(shapes(model, "mlp/bottom")),
        activation=ACTIVATIONS[model.activation])


def save_weights(model, path):
    """Writes the state dict of Model."""
    state = {f"tables.{i}": model.table(name) for i, name in enumerate(model.tables)}
    parts = {"mlp/bottom": ("bottom.", "bottom_norms.")}
    for t, tower in enumerate(model.towers()):
        parts[tower] = (f"towers.{t}.", f"towers_norms.{t}.") if model.tasks else ("top.", "top_norms.")
    for e, expert in enumerate(model.experts()):
        parts[expert] = f"experts.{e}.", f"experts_norms.{e}."
        state["gates.weight"] = model.arrays["gates/weight"]
    for mlp, (layers, norms) in parts.items():
        for i, (weight, bias) in enumerate(model.layers(mlp)):
            state[f"{layers}{i}.weight"], state[f"{layers}{i}.bias"] = weight, bias
        for i, norm in enumerate(model.norms(mlp)):
            if norm:
                state[f"{norms}{i}.weight"], state[f"{norms}{i}.bias"] = norm
    state.update({f"projections.{i}.weight": matrix for i, matrix in enumerate(model.projections())
                  if matrix is not None})
    for i, (matrices, bias) in enumerate(model.cross_layers()):
        names = ["cross_v", "cross_u"] if len(matrices) == 2 else ["cross_w"]
        state.update({f"{name}.{i}.weight": matrix for name, matrix in zip(names, matrices)})
        state[f"{names[-1]}.{i}.bias"] = bias
    if model.linear:
        state.update({f"linear.{i}": model.linear_weights(feature) for i, feature in enumerate(model.features)})
        if model.dense_features:
            state["linear_dense.weight"] = model.arrays["linear_dense/weight"]
    with open(path, "wb") as file:
        torch.save({name: torch.from_numpy(array) for name, array in state.items()}, file)
