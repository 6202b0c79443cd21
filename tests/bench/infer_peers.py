#!/usr/bin/python3
"""Compares predictions of dlrm-bench infer with PyTorch and onnxruntime on the exported model: same machine, threads and
batches, one process at a time, in turn.

    tests/bench/infer_peers.py CHECKPOINT [--programs build/cpu/bin] [--rounds 3] [--output FILE.json]

Prints the medians of the rounds. A peer that is not installed is said to be so. Of each peer the better of one thread and
two counts. The exports need the packages of launch/install_deps.sh python torch, and its environment build/venv; onnxruntime is PyPI's.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXPORTS = {"torch": "model.py", "onnxruntime": "model.onnx"}
FORMATS = {"torch": "torch", "onnxruntime": "onnx"}


def percentile(values, share):
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)]


def time_calls(call, batches, seconds):
    """A point as dlrm-bench infer has it. Calls follow one another."""
    for batch in batches[:3]:
        call(batch)
    latencies, start = [], time.perf_counter()
    now = start
    while len(latencies) < 10 or now < start + seconds:
        begin = now
        call(batches[len(latencies) % len(batches)])
        now = time.perf_counter()
        latencies.append(now - begin)
    samples = len(latencies) * len(batches[0]["dense"])
    return {"calls": len(latencies), "samples_per_second": samples / (now - start),
            "p50_ms": 1e3 * percentile(latencies, 50), "p99_ms": 1e3 * percentile(latencies, 99)}


def torch_call(path, threads):
    import torch
    torch.set_num_threads(threads)
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Model.load(os.path.splitext(path)[0] + ".pt")

    def call(batch):
        with torch.inference_mode():
            bags = {name: torch.from_numpy(ids) for name, ids in batch["ids"].items()}
            return model(torch.from_numpy(batch["dense"]), bags).sigmoid().numpy()
    return call, torch.__version__


def onnxruntime_call(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    taken = {i.name for i in session.get_inputs()}

    def call(batch):
        feed = {name: array for name, array in [("dense", batch["dense"]), *batch["ids"].items()] if name in taken}
        return session.run(None, feed)[0]
    return call, onnxruntime.__version__


def run_peer(request):
    """In a process of its own: times one peer at each batch size."""
    import numpy as np
    make = {"torch": torch_call, "onnxruntime": onnxruntime_call}[request["peer"]]
    call, version = make(request["path"], request["threads"])
    random, points = np.random.default_rng(1), []
    for size in request["batches"]:
        batches = [{"dense": random.random((size, request["dense"]), dtype=np.float32),
                    "ids": {name: random.integers(0, rows, (size, hotness)) for name, rows, hotness in request["features"]}}
                   for _ in range(max(1, 8192 // size))]
        points.append({"batch": size, **time_calls(call, batches, request["seconds"])})
    print(json.dumps({"version": version, "points": points}))


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def inputs_of(checkpoint):
    """The number of dense features, and name, rows and hotness of each feature."""
    import h5py
    import yaml
    from dlrm.model import trained
    folder = trained.checkpoint_folder(checkpoint)
    with h5py.File(os.path.join(folder, "index.h5"), "r") as file:
        config = file.attrs["config"]
    model = yaml.safe_load(config.decode() if isinstance(config, bytes) else config)["model"]
    features = []
    for table in model["tables"]:
        for suffix in trained.suffixes_of(table):
            for feature in table.get("features") or [{"name": table["name"], "hotness": table.get("hotness", 1)}]:
                features.append((feature["name"] + suffix, table["rows"], feature.get("hotness", 1)))
    return model["dense_features"], features


def exported(checkpoint, folder):
    """The files of the peers that are installed."""
    paths = {}
    for peer, name in EXPORTS.items():
        if importlib.util.find_spec(peer):
            paths[peer] = os.path.join(folder, name)
            run([sys.executable, "-m", "dlrm.model.export", checkpoint, "--to", FORMATS[peer],
                 paths[peer]])
    return paths


def ours(options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "infer.json")
        run([os.path.join(options.programs, "dlrm-bench"), "infer", options.checkpoint, "--batches", options.batches,
             "--seconds", str(options.seconds), "--threads", str(options.threads), "--output", path])
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    return {model["tables"]: model["batches"] for model in result["models"]}


def medians(rounds, batch):
    """The point of a batch size, each figure the median of the rounds."""
    points = [next(p for p in points if p["batch"] == batch) for points in rounds]
    return {key: statistics.median(p[key] for p in points) for key in ("samples_per_second", "p50_ms", "p99_ms")}


def table(figures, peers, batches):
    """Markdown: samples per second and p99, and the ratio of ours in fp32 to onnxruntime."""
    names = [n for n in figures if not n.partition(" ")[2]]
    lines = ["| batch | " + " | ".join([*names, *peers, "fp32 over onnxruntime"]) + " |",
             "|---" * (2 + len(names) + len(peers)) + "|"]
    for batch in batches:
        cells, best = [medians(figures[n], batch) for n in names], {}
        for peer in peers:
            found = [medians(points, batch) for n, points in figures.items() if n.partition(" ")[0] == peer]
            best[peer] = max(found, key=lambda p: p["samples_per_second"]) if found else None
        shown = [f"{p['samples_per_second']:.0f}/s, p99 {p['p99_ms']:.3f} ms" if p else "not installed"
                 for p in [*cells, *best.values()]]
        peer = best["onnxruntime"]
        ratio = f"{cells[0]['samples_per_second'] / peer['samples_per_second']:.2f}" if peer else "-"
        lines.append(f"| {batch} | " + " | ".join([*shown, ratio]) + " |")
    return "\n".join(lines)


def main():
    if sys.argv[1:2] == ["--peer"]:
        return run_peer(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--programs", default=os.path.join(ROOT, "build/cpu/bin"))
    parser.add_argument("--batches", default="1,2,4,8,16,32,64,128")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each figure")
    parser.add_argument("--output", help="JSON to write")
    options = parser.parse_args()
    batches = [int(word) for word in options.batches.split(",")]
    dense, features = inputs_of(options.checkpoint)
    figures, versions = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        paths = exported(options.checkpoint, folder)
        for _ in range(options.rounds):
            for name, points in ours(options).items():
                figures.setdefault(name, []).append(points)
            for peer, path in paths.items():
                for threads in sorted({1, options.threads}):
                    request = {"peer": peer, "path": path, "threads": threads, "batches": batches, "dense": dense,
                               "features": features, "seconds": options.seconds}
                    answer = json.loads(run([sys.executable, os.path.abspath(__file__), "--peer", json.dumps(request)]))
                    versions[peer] = answer["version"]
                    figures.setdefault(f"{peer} {threads}", []).append(answer["points"])
    print(table(figures, list(EXPORTS), batches))
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump({"versions": versions, "figures": figures}, file, indent=1)


if __name__ == "__main__":
    main()
