#!/usr/bin/env python3
"""Exported models, and imported weights, predict what dlrm-train predicts. export_test.py PATH/TO/dlrm-train"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

from dlrm.model import trained

EXPORT, IMPORT = ([sys.executable, "-m", "dlrm.model." + name] for name in ("export", "import_weights"))
PROGRAM = ""
SAMPLES = 203

# Name: rows, the largest bag, whether bags vary (and some are empty). Their tables are in CONFIG.
FEATURES = {"tiny": (3, 1, False), "left": (50, 1, False), "right": (50, 4, True), "mean": (40, 3, True),
            "two_0": (7, 2, False), "two_1": (7, 2, False)}

WEIGHTED = ["right", "two_0", "two_1"]  # whose ids have weights in the data, and in some models

CONFIG = """
model:
  dense_features: 5
  embedding_dim: 6
  bottom_mlp: [9, 6]
  top_mlp: [7, 1]
  tables:
    - {name: tiny, rows: 3}
    - {name: shared, rows: 50, features: [{name: left}, {name: right, hotness: 4}]}
    - {name: mean, rows: 40, hotness: 3, pooling: mean}
    - {name: two, rows: 7, hotness: 2, count: 2}
data: {train: data.h5, test: data.h5}
train: {global_batch_size: 64, epochs: 4, dense_optimizer: {type: adagrad, lr: 0.05}, sparse_optimizer: {lr: 0.2}}
checkpoint: {directory: ckpt, at_end: true}
output: {directory: run}
"""

NO_DENSE = ["model.dense_features=0", "model.bottom_mlp=[]", "data.train=bags.h5", "data.test=bags.h5"]
# The module of PyTorch has logits, ONNX has outputs, and predictions have columns by these names.
TASK_NAMES = ("click", "buy")
TASKS = ["model.tasks=[{name: click}, {name: buy, weight: 0.5, tower: [8, 4, 1]}]", "data.train=labels.h5",
         "data.test=labels.h5"]
WEIGHTS = ["model.tables.shared.features=[{name: left}, {name: right, hotness: 4, weights: true}]",
           "model.tables.two.weights=true"]
# Every interaction with its options, and every activation.
MODELS = {
    "dot": [],
    "fm": ["model.interaction=fm", "model.activation=gelu"],
    "projected": ["model.tables.mean.dim=3", "model.tables.shared.dim=9"],
    "cross": ["model.interaction={type: cross, layers: 2, rank: 4}", "model.activation=silu"],
    "full_cross": ["model.interaction={type: cross, layers: 2, rank: 0}"],
    "concat": ["model.interaction=concat", "model.activation=sigmoid", "model.tables.mean.dim=3"],
    "pooled": ["model.interaction={type: concat, order: dense_last, average_pool: 13}", "model.activation=tanh"],
    "regularised": ["model.layer_norm={bottom: true, top: true}", "model.dropout={bottom: 0.1, top: 0.2}",
                    "model.bottom_mlp=[9, 8, 6]", "model.top_mlp=[12, 7, 1]", "model.activation=gelu"],
    "tasks": TASKS,
    "normed_tasks": TASKS + ["model.layer_norm.top=true", "model.activation=silu", "model.interaction=cross"],
    "tasks_of_experts": TASKS + ["model.experts={count: 3, layers: [9, 7]}", "model.layer_norm.top=true",
                                 "model.activation=gelu", "model.linear=true", "model.interaction=concat"],
    "linear": ["model.linear=true", "model.interaction=fm"],
    "weighted": WEIGHTS,
    "weighted_wide_tasks": TASKS + WEIGHTS + ["model.linear=true", "model.interaction=fm"],
    "max": ["model.linear=true", "model.interaction=concat", "model.tables.mean.pooling=max",
            "model.tables.two.pooling=max"],
    "no_dense": NO_DENSE,
    "no_dense_linear": NO_DENSE + ["model.linear=true", "model.interaction=concat", "model.tables.mean.dtype=bf16"],
    "no_dense_pooled": NO_DENSE + ["model.interaction={type: concat, average_pool: 13}"],
    "no_bottom": ["model.interaction=concat", "model.bottom_mlp=[]", "model.tables.tiny.dtype=bf16"],
}


def make_data(path, width=5, tasks=False):
    rng = np.random.default_rng(3)
    bags = {}
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["version"], file.attrs["samples"] = "dlrm-dataset", 1, SAMPLES
        label = rng.integers(0, 2, SAMPLES).astype(np.uint8)
        file["label"] = np.stack([label, np.where(label == 1, 1, np.nan)], 1).astype(np.float32) if tasks else label
        file["dense"] = rng.normal(size=(SAMPLES, 5)).astype(np.float32)[:, :width]
        for name, (rows, hotness, varies) in FEATURES.items():
            lengths = rng.integers(0, hotness + 1, SAMPLES) if varies else np.full(SAMPLES, hotness)
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            ids = rng.integers(0, rows, offsets[-1])
            file[f"sparse/{name}/ids"] = ids.astype(np.int32)
            file[f"sparse/{name}/ids"].attrs["rows"] = rows
            if varies:
                file[f"sparse/{name}/offsets"] = offsets.astype(np.int64)
            else:
                file[f"sparse/{name}/ids"].attrs["hotness"] = hotness
            bags[name] = (ids, offsets)
        weights = {}
        for name in WEIGHTED:
            weights[name] = rng.normal(size=len(bags[name][0])).astype(np.float32)
            file[f"sparse/{name}/weights"] = weights[name]
        return file["dense"][()], bags, weights


def padded(bag, missing=-1):
    ids, offsets = bag
    lengths = np.diff(offsets)
    out = np.full((len(lengths), lengths.max()), missing, ids.dtype)
    out[np.arange(lengths.max()) < lengths[:, None]] = ids
    return out


def run(*words, cwd):
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise AssertionError(f"{words}: {done.returncode}: {done.stderr}")


def export(*words):
    return subprocess.run([*EXPORT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)


def has(package):
    return importlib.util.find_spec(package) is not None


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dense, cls.bags, cls.weights = make_data(cls.path("data.h5"))
        make_data(cls.path("bags.h5"), 0)
        make_data(cls.path("labels.h5"), tasks=True)
        with open(cls.path("config.yaml"), "w", encoding="utf-8") as file:
            file.write(CONFIG)
        cls.expected = {}
        for name, keys in MODELS.items():
            keys = [f"checkpoint.directory={name}", f"output.directory=run_{name}"] + keys
            sets = [word for key in keys for word in ("--set", key)]
            run(PROGRAM, "config.yaml", *sets, cwd=cls.folder.name)
            run(PROGRAM, "config.yaml", *sets, "--predict", f"{name}.h5", cwd=cls.folder.name)
            with h5py.File(cls.path(f"{name}.h5")) as file:
                cls.expected[name] = ({task: file[f"probability_{task}"][()] for task in TASK_NAMES}
                                      if "tasks" in name else file["probability"][()])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def export(self, name, kind, out):
        done = export(self.path(name), "--to", kind, self.path(out))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(out)

    def dense_of(self, name):
        return self.dense[:, :0] if name.startswith("no_dense") else self.dense

    def bags_of(self, name):
        if not name.startswith("weighted"):
            return self.bags
        bags = {feature: (*self.bags[feature], weights) for feature, weights in self.weights.items()}
        bags["two_0"] = (self.bags["two_0"][0].reshape(-1, 2), self.weights["two_0"].reshape(-1, 2))
        return {**self.bags, **bags}

    def assert_close(self, name, probabilities):
        expected = self.expected[name]
        if not isinstance(expected, dict):
            probabilities, expected = {"": probabilities}, {"": expected}
        self.assertEqual(list(probabilities), list(expected))
        for task, values in expected.items():
            self.assertEqual(probabilities[task].shape, (SAMPLES,))
            self.assertLess(np.abs(probabilities[task] - values).max(), 1e-6)
            self.assertGreater(np.ptp(values), 0.02)

    def test_numpy(self):
        for name in MODELS:
            with self.subTest(name):
                self.assert_close(name, trained.load(self.path(name)).predict(self.dense_of(name),
                                                                                       self.bags_of(name)))

    def test_npz(self):
        for name in MODELS:
            with self.subTest(name):
                with np.load(self.export(name, "npz", name + ".npz")) as file:
                    model = trained.load(self.path(name))
                    self.assertEqual(set(file.files), set(model.arrays) | {"model"})
                    for array in model.arrays:
                        self.assertTrue((file[array] == model.arrays[array]).all())
                    said = json.loads(str(file["model"]))
                    self.assertEqual([f["name"] for f in said["features"]], list(FEATURES))

    @unittest.skipUnless(has("torch"), "PyTorch is not installed")
    def test_torch(self):
        import torch
        for name in MODELS:
            with self.subTest(name):
                bags = {feature: tuple(map(torch.from_numpy, bag)) for feature, bag in self.bags_of(name).items()}
                bags["tiny"] = bags["tiny"][0][:, None]
                spec = importlib.util.spec_from_file_location(name, self.export(name, "torch", name + ".py"))
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                model = module.Model.load(self.path(name + ".pt"))
                with torch.no_grad():
                    logits = model(torch.from_numpy(self.dense_of(name)), bags)
                probabilities = ({task: z.sigmoid().numpy() for task, z in logits.items()}
                                 if isinstance(logits, dict) else logits.sigmoid().numpy())
                self.assert_close(name, probabilities)

    @unittest.skipUnless(has("onnx") and has("onnxruntime"), "onnx and onnxruntime are not installed")
    def test_onnx(self):
        import onnxruntime
        for name in MODELS:
            with self.subTest(name):
                bags = {feature: padded(bag) for feature, bag in self.bags.items()}
                # Into an own folder, so that the file of weights is found there and nowhere else.
                os.mkdir(self.path("onnx_" + name))
                path = self.export(name, "onnx", f"onnx_{name}/m.onnx")
                session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
                if name.startswith("weighted"):
                    for feature, weights in self.weights.items():
                        bags[f"weights_of_{feature}"] = padded((weights, self.bags[feature][1]), 0)
                inputs = bags if name.startswith("no_dense") else {"dense": self.dense, **bags}
                names = [output.name for output in session.get_outputs()]
                found = dict(zip(names, session.run(names, inputs)))
                self.assert_close(name, found["probability"] if len(found) == 1 else
                                  {task: found[f"probability_{task}"] for task in TASK_NAMES})
                self.assertEqual(sorted(os.listdir(os.path.dirname(path))), ["m.onnx", "m.onnx.data"])

    def test_imported_arrays_train_on(self):
        self.make_initial("dot", "initial")
        weights = self.export("dot", "npz", "weights.npz")
        run(*IMPORT, weights, "initial", "imported", cwd=self.folder.name)
        self.assert_predicts_dot("imported")

    @unittest.skipUnless(has("torch"), "PyTorch is not installed")
    def test_imported_state_dicts(self):
        import torch
        self.make_initial("dot", "before")
        model = trained.load(self.path("dot"))
        names = {"tables/tiny/weight": "emb_l.0.weight", "tables/shared/weight": "emb_l.1.weight",
                 "tables/mean/weight": "emb_l.2.weight", "tables/two_0/weight": "emb_l.3.weight",
                 "tables/two_1/weight": "emb_l.4.weight"}
        for part, there in (("bottom", "bot_l"), ("top", "top_l")):
            for i in range(2):
                names[f"mlp/{part}/{i}/weight"] = f"{there}.{2 * i}.weight"
                names[f"mlp/{part}/{i}/bias"] = f"{there}.{2 * i}.bias"
        state = {there: torch.from_numpy(model.arrays[here]) for here, there in names.items()}
        torch.save({"state_dict": state, "iter": 3}, self.path("dlrm.pt"))
        run(*IMPORT, "dlrm.pt", "before", "dlrm", cwd=self.folder.name)
        self.assert_predicts_dot("dlrm")
        torch.save({"my_" + there: value for there, value in state.items()}, self.path("own.pt"))
        with open(self.path("names.yaml"), "w", encoding="utf-8") as file:
            json.dump({here: "my_" + there for here, there in names.items()}, file)
        run(*IMPORT, "own.pt", "before", "own", "--names", "names.yaml", cwd=self.folder.name)
        self.assert_predicts_dot("own")

    def make_initial(self, name, folder):
        run("mpirun", "-np", "3", "--oversubscribe", PROGRAM, "config.yaml", "--set", "train.steps=0", "--set",
            "train.seed=9", "--set", f"checkpoint.directory={folder}", "--set", "output.directory=initial_run",
            "--set", "sharding.strategy=grid", cwd=self.folder.name)

    def assert_predicts_dot(self, folder):
        run(PROGRAM, "config.yaml", "--init-from", folder, "--predict", f"{folder}.h5", "--set",
            "output.directory=after", cwd=self.folder.name)
        with h5py.File(self.path(f"{folder}.h5")) as file:
            self.assert_close("dot", file["probability"][()])

    def test_imports_check_names_and_shapes(self):
        arrays = {"mlp/top/0/weight": np.zeros((7, 3), np.float32)}
        np.savez(self.path("few.npz"), **arrays)
        self.refuse_import("not among the given weights", "few.npz")
        with open(self.path("few.yaml"), "w", encoding="utf-8") as file:
            file.write("mlp/top/0/weight: mlp/top/0/weight\n")
        self.refuse_import("mlp/top/0/weight is [7, 3], but mlp/top/0/weight is [7, 27]", "few.npz", "--names",
                           self.path("few.yaml"))
        with open(self.path("few.yaml"), "w", encoding="utf-8") as file:
            file.write("mlp/top/9/weight: mlp/top/0/weight\n")
        self.refuse_import("mlp/top/9/weight: the model has no such weights", "few.npz", "--names",
                           self.path("few.yaml"))

    def refuse_import(self, text, weights, *words):
        done = subprocess.run([*IMPORT, self.path(weights), self.path("dot"), self.path("no"), *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_errors_are_one_line(self):
        self.refuse("no checkpoint (step_*) there", self.path("run_dot"), "--to", "npz", self.path("o.npz"))
        self.refuse("whose name ends in .npz", self.path("dot"), "--to", "npz", self.path("o.txt"))
        self.refuse("No such file", self.path("dot"), "--to", "npz", self.path("absent/o.npz"))

    def test_a_missing_rank_file_is_an_error(self):
        run("cp", "-r", "dot", "cut", cwd=self.folder.name)
        step = trained.checkpoint_folder(self.path("cut"))
        os.unlink(os.path.join(step, "rank_00000.h5"))
        self.refuse("is a rank file missing?", self.path("cut"), "--to", "npz", self.path("o.npz"))
        self.assertFalse(os.path.exists(self.path("o.npz")))

    def refuse(self, text, *words):
        done = export(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(text, done.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
