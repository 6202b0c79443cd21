#!/usr/bin/env python3
"""Wrong options, configs, plans and other text: the exit code and the whole text of each error, compared with
provoked_errors.json.

    provoked_errors_test.py FOLDER/OF/PROGRAMS [--update]

An error has its own test where it matters that it is found. This test has as many errors as possible, one by one, so
that a text, a number or a place in a text that is wrong shows. With --update the file is written anew."""
import copy
import gzip
import json
import os
import re
import subprocess

from provoking import ROOT, Provoking, main, program

MACHINE = os.path.join(ROOT, "configs/machines/epyc.json")


def changed(root, *path_and_value):
    """A copy of a tree of JSON with a new value at a path; ... removes it."""
    *path, last, value = path_and_value
    new = inner = copy.deepcopy(root)
    for key in path:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return new


class ProvokedErrors(Provoking):
    def test_options(self):
        """Each option that takes a value, with one that it does not take, and the programs without what they need."""
        cases = {}
        programs = {"dlrm-train": ["config.yaml"], "dlrm-plan": ["config.yaml", "--ranks", "1"], "dlrm-infer": ["ckpt"],
                    "dlrm-preflight": [], "dlrm-data synth": ["--samples", "5", "--config", "config.yaml", "--output", "n.h5"],
                    "dlrm-data criteo": ["log.tsv", "--output", "n.h5"],
                    "dlrm-data shuffle": ["train.h5", "--output", "n.h5"], "dlrm-data inspect": ["train.h5"]}
        for command in ("kernels", "limits", "machine", "simulate", "timeline", "batch-sweep", "infer", "cache"):
            programs["dlrm-bench " + command] = [] if command in ("kernels", "limits", "machine") else ["config.yaml"]
        for name, words in programs.items():
            command = name.split()
            shown = subprocess.run([program(command[0]), *command[1:], "--help"], capture_output=True,
                                   text=True).stdout
            cases[name + " --nonsense"] = [*command, *words, "--nonsense"]
            if words:
                cases[name] = command
            options = re.findall(r"^ +(?:-[a-z],)?--([a-z0-9-]+) ((?:INT|UINT|FLOAT|BOOLEAN|TEXT:|F\b|N\b).*)", shown, re.M)
            needs = ["--port=0"] if name == "dlrm-infer" else []
            for option, kind in options:
                for value in ("x1", "-1") if kind.startswith(("INT:", "FLOAT:")) else ("x1",):
                    cases[f"{name} --{option}={value}"] = [*command, *words, *needs, f"--{option}={value}"]
        self.check("options", cases)

    def test_keys(self):
        """Each key of the config with a value of another kind."""
        with open(os.path.join(ROOT, "docs/config.md"), encoding="utf-8") as file:
            keys = re.findall(r"^\| `([a-z0-9_.]+)` \| `", file.read(), re.M)
        self.assertGreater(len(keys), 80)
        values = ("[{}]", "-1", "1e999")
        self.check("keys", {f"{key}={value}": ["dlrm-plan", "config.yaml", "--ranks", "1", "--set", f"{key}={value}"]
                            for key in keys for value in values if not key.endswith(("data.train", "data.test"))
                            and (value == "[{}]" or not key.endswith(("directory", "machine", "plan")))})

    def test_configs(self):
        tables = re.search(r"tables:\n(    -.*\n)+", self.config)[0]
        one = "tables:\n    - {name: t, rows: 5}\n"
        texts = {
            "empty": "", "list": "[1]", "text": "a", "two documents": self.config + "---\na: 1\n", "tab": "a:\n\t- 1\n",
            "deep": "a: " + "[" * 5000 + "]" * 5000, "alias": "a: &x [*x]\n", "key": "[1]: 2\n",
            "control": '"a\\u0007": 1\n', "long key": "k" * 300 + ": 1\n", "twice": self.config + "eval: {at_end: false}\n",
            "merge": "<<: 3\n" + self.config, "unknown": self.config + "evla: {at_end: false}\n",
            "elsewhere": self.config + "lr: 3\n", "no model": re.sub(r"model:\n(  .*\n)+", "", self.config),
            "no batch": self.config.replace("  global_batch_size: 65\n", ""),
            "both": self.config.replace("  steps: 20\n", "  steps: 20\n  epochs: 1\n"),
            "no dense": self.config.replace("dense_features: 4", "dense_features: 0"),
            "widths": self.config.replace("[16, 8]", "[16, 9]"), "last": self.config.replace("[16, 1]", "[16, 2]"),
            "slice": self.config.replace("eval: {", "eval: {slice_by: right, "),
            "no slice": self.config.replace("eval: {", "eval: {slice_by: some, "),
            "no train": re.sub("data: .*", "data: {}", self.config),
            "criteo": re.sub("data: .*", "data: {source: criteo}", self.config),
            "criteo shuffled": re.sub("data: .*", "data: {source: criteo, train: a, shuffle: true}", self.config),
            "variable": re.sub("data: .*", "data: {train: ${env:NOT_SET_HERE}/a}", self.config),
            "option of another type": self.config.replace("top_mlp", "interaction: {type: dot, rank: 4}\n  top_mlp"),
            "pool": self.config.replace("top_mlp", "interaction: {type: concat, average_pool: 10000}\n  top_mlp")}
        for name, entry in {
                "no name": "{rows: 5}", "no rows": "{name: t}", "a name": "{name: .t, rows: 5}", "rows": "{name: t, rows: 0}",
                "dim": "{name: t, rows: 5, dim: 4}", "dtype": "{name: t, rows: 5, dtype: fp8}",
                "hotness twice": "{name: t, rows: 5, hotness: 2, features: [{name: a}]}",
                "pooling twice": "{name: t, rows: 5, pooling: mean, features: [{name: a}]}",
                "no features": "{name: t, rows: 5, features: []}", "unknown": "{name: t, rows: 5, row: 5}",
                "a feature": "{name: t, rows: 5, features: [{name: a, hotness: 0}]}",
                "same features": "{name: t, rows: 5, features: [{name: a}, {name: a}]}",
                "count": "{name: t, rows: 5, count: 0}", "most": "{name: t, rows: 5, count: 1000001}",
                "many": "{name: t, rows: 5, count: 1000000}\n    - {name: u, rows: 5}"}.items():
            texts["table: " + name] = self.config.replace(tables, "tables:\n    - " + entry + "\n")
        texts["same tables"] = self.config.replace(tables, one + one[8:])
        texts["no tables"] = self.config.replace(tables, "tables: []\n")
        for key, value in {"sharding": "{tables: {bgi: row}}", "memory": "{tables: {bgi: host}}", "routing": "3"}.items():
            texts[f"{key}: {value}"] = self.config + f"{key}: {value}\n"
        texts["not cached"] = self.config + "memory: {tier: device, cached: {tables: {big: 1%}}}\n"
        texts["group"] = self.config + "memory: {tier: cached, cached: {tables: {bgi: 1%}}}\n"
        plan = "dlrm-plan wrong.yaml --ranks 2"
        self.check("configs", {name: (lambda text=text: self.write("wrong.yaml", text), plan)
                               for name, text in texts.items()})
        self.check("overrides", {value: ["dlrm-plan", "config.yaml", "--ranks", "1", "--set", value] for value in (
            "train", "train.steps", "=3", "train.steps.more=3", "model.tables.9.rows=3", "model.tables.none.rows=3",
            "model.tables.big.rwos=3", "trian.steps=1", "train.steps=[1", "model.tables.big.features.0.hotness=0",
            "device=cuda:1", "memory.cached.fast=101%", "memory.device=5XiB", "train=3", "model.bottom_mlp=[8,0]")})

    def test_plans(self):
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        shard = plan["shards"][0]
        wrong = {"list": [], "no shards": changed(plan, "shards", ...), "shards": changed(plan, "shards", 3),
                 "none": changed(plan, "shards", []), "shard": changed(plan, "shards", 0, 3),
                 "world": changed(plan, "world", 3), "text": changed(plan, "world", "2"), "machine": changed(plan, "machine", 3),
                 "node": changed(plan, "ranks_per_node", -1), "data_parallel": changed(plan, "data_parallel", 3),
                 "unknown table": changed(plan, "data_parallel", ["none"]),
                 "number": changed(plan, "data_parallel", [3]), "twice": changed(plan, "data_parallel", ["tiny", "tiny"]),
                 "both": changed(plan, "data_parallel", [shard["table"]]),
                 "host": changed(plan, "data_parallel_host", ["big"]),
                 "host twice": changed({**plan, "data_parallel": ["big"]}, "data_parallel_host", ["big", "big"]),
                 "again": changed(plan, "shards", plan["shards"] + [shard])}
        for key in ("table", "rows", "columns", "rank"):
            wrong["no " + key] = changed(plan, "shards", 0, key, ...)
            for value in (None, -1, [], [0], [3, 3], [-1, 2], [0, 1], [0, 10 ** 9], [0, 1.5], 9, 2 ** 40, 2 ** 64):
                wrong[f"{key} {value}"] = changed(plan, "shards", 0, key, value)
        wrong["tier"] = changed(plan, "shards", 0, "tier", "disk")
        wrong["missing"] = changed(plan, "shards", [s for s in plan["shards"] if s["table"] != "big"])
        texts = {name: json.dumps(value) for name, value in wrong.items()}
        texts |= {"no JSON": "{\n\"world\": 2,,}", "cut": "{\"world\"", "empty": "", "large": "{\"world\": 1e999}"}
        self.check("plans", {name: (lambda text=text: self.write("wrong.json", text),
                                    "dlrm-plan config.yaml --ranks 2 --set sharding.plan=wrong.json")
                             for name, text in texts.items()})

    def test_machines(self):
        with open(MACHINE, encoding="utf-8") as file:
            machine = json.load(file)
        wrong = {"list": [], "unknown": {**machine, "speed": 3}, "name": {**machine, "name": 3},
                 "device": {**machine, "device": "tpu"}, "sources": {**machine, "sources": 3},
                 "source": {**machine, "sources": {"speed": "here"}}, "a source": {**machine, "sources": {"line_bytes": 3}},
                 "half a rank": {**machine, "ranks_per_node": 1.5}, "ranks": {**machine, "ranks_per_node": 65537}}
        for key, value in machine.items():
            if isinstance(value, (int, float)):
                wrong |= {f"{key} 0": {**machine, key: 0}, f"{key} text": {**machine, key: "1"}}
        for key in ("memory_bytes_per_second", "local_bytes_per_second", "network_bytes_per_second", "ranks_per_node"):
            wrong["no " + key] = changed(machine, key, ...)
        self.check("machines", {name: (lambda value=value: self.write("wrong.json", value),
                                       "dlrm-plan config.yaml --ranks 2 --machine wrong.json")
                                for name, value in wrong.items()})
        times = {"program": "p", "source": "s", "largest_slice_elements": 1e6,
                 "seconds": {"id": 0, "element": 0, "input": 0, "model_input": 0},
                 "points": [{"config": "config.yaml", "ranks": 1, "ms": 1}]}
        wrong = {"list": [], "seconds": {**times, "seconds": {"id": 2}}, "no points": {**times, "points": []},
                 "no slice": {**times, "largest_slice_elements": 0}, "ranks": changed(times, "points", 0, "ranks", 0),
                 "ms": changed(times, "points", 0, "ms", 0), "config": changed(times, "points", 0, "config", "none.yaml")}
        wrong |= {"no " + key: changed(times, key, ...) for key in times}
        wrong |= {"no " + key: changed(times, "points", 0, key, ...) for key in ("config", "ranks", "ms")}
        wrong |= {f"{key} {value}": changed(times, "seconds", key, value) for key in times["seconds"] for value in (-1, 1, "a")}
        self.check("published", {name: (lambda value=value: self.write("wrong.json", value),
                                        f"dlrm-bench simulate --published wrong.json --machine {MACHINE}")
                                 for name, value in wrong.items()})
        self.check("lists", {words.replace(MACHINE, "MACHINE"): f"dlrm-bench {words}" for words in (
            f"simulate config.yaml --machine {MACHINE} --ranks 0", f"simulate config.yaml --machine {MACHINE} --ranks 8..4",
            f"simulate config.yaml --machine {MACHINE} --ranks 1,x", f"simulate --machine {MACHINE}",
            f"simulate config.yaml --machine {MACHINE} --output none/a.json", "simulate config.yaml --machine none.json",
            f"simulate config.yaml --machine {MACHINE} --set train.global_batch_size=auto", "batch-sweep config.yaml --batches 0", "batch-sweep config.yaml --batches 9..8",
            "cache config.yaml --shares 0", "cache config.yaml --shares 101", "cache config.yaml --shares 3..2",
            "cache config.yaml --policies all", "infer ckpt --rates 0", "infer ckpt --rates 1e99", "infer ckpt --tables fp8",
            "infer none", "infer ckpt --batches 1,,2", "kernels --only nothing-has-this-name --device cuda --threads 4097")})

    def test_logs(self):
        numbers, categories = "\t".join(["1"] * 13), "\t".join(["0000000a"] * 26)
        line = f"1\t{numbers}\t{categories}\n"
        lines = {"label": "2" + line[1:], "no label": line[1:], "few": "1\t2\n", "number": line.replace("1\t1\t", "1\tx\t", 1),
                 "many": line[:-1] + "\t1\n", "category": line[:-2] + "g\n", "long category": line[:-1] + "0\n",
                 "empty line": "\n", "control": line[:-1] + "\a\n", "empty": ""}
        cases = {}
        for name, wrong in lines.items():
            text = line + wrong if wrong else ""
            cases[name] = (lambda text=text: self.write("log.tsv", text), "dlrm-data criteo log.tsv --output log.h5")
            cases[name + ", hashed"] = (lambda text=text: self.write("log.tsv", text),
                                        "dlrm-data criteo log.tsv --output log.h5 --max-rows 9")
        packed = gzip.compress((line * 50).encode(), mtime=0)

        def write_bytes(data):
            with open(self.path("log.gz"), "wb") as file:
                file.write(data)

        for name, data in {"cut": packed[:-9], "sum": packed[:-5] + bytes([packed[-5] ^ 1]) + packed[-4:], "tail": packed + b"x",
                           "padded": packed + b"\0\0" + packed, "header": packed[:2] + b"\7" + packed[3:],
                           "two bytes": packed[:2], "second cut": packed + packed[:30], "damage": packed[:40] + b"\xff" * 9
                           + packed[49:]}.items():
            cases["gzip: " + name] = (lambda data=data: write_bytes(data), "dlrm-data criteo log.gz --output log.h5")
        good = lambda: self.write("log.tsv", line * 3)  # noqa: E731
        for words in ("--frozen-dictionary", "--frozen-dictionary --dictionary none.h5", "--test-output t.h5",
                      "--test-fraction 0.5", "--test-fraction 0.1 --test-output t.h5", "--dictionary log.tsv",
                      "--dictionary train.h5", "--dictionary d.h5 --max-rows 3", "--frequency-threshold 2 --max-rows 3",
                      "--test-output log.h5 --test-fraction 0.5", "--frequency-threshold 0", "--max-rows 0", "--threads 0",
                      "--test-fraction 1 --test-output t.h5", "none.tsv", "ckpt"):
            cases[words] = (good, f"dlrm-data criteo log.tsv {words} --output log.h5")
        cases["no folder"] = (good, "dlrm-data criteo log.tsv --output none/log.h5")
        for words in ("--output a.h5", "--config config.yaml --output a.tsv", "--criteo --output a.h5",
                      "--config config.yaml --output none/a.h5", "--config config.yaml --output a.h5 --alpha -1",
                      "--config config.yaml --output a.h5 --first-sample -1", "--config config.yaml --output a.h5 --threads -1",
                      "--config config.yaml --output a.h5 --threads 100000", "--config none.yaml --output a.h5",
                      "--config config.yaml --output a.h5 --first-sample 1099511627777"):
            cases["synth " + words] = "dlrm-data synth --samples 3 " + words
        for words in ("none.h5 --output a.h5", "train.h5 --output train.h5", "train.h5 --output ckpt", "ckpt --output a.h5",
                      "train.h5 --output none/a.h5", "train.h5 --output a.h5 --memory 1KiB"):
            cases["shuffle " + words] = "dlrm-data shuffle " + words
        self.check("logs", cases)


if __name__ == "__main__":
    main()
