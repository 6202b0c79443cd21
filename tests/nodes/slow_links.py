#!/usr/bin/env python3
"""How much of the exchanges between two hosts with slow links is hidden, and how much their dependencies allow to hide.

  tests/nodes/slow_links.py --output FOLDER [--programs build/cpu/bin] [--rate 200mbit] [--only kaggle] [--repeats 3]

The hosts are namespaces of this machine with a rank of one thread each: this needs root, two cores, and nothing else that
runs. dlrm-bench machine measures a machine file over their links. Then each model trains on links without a limit and on
slow ones in turn. What a step is longer on slow links is exposed. dlrm-bench simulate says what is exposed if everything
is hidden that may be. The same command continues after an interruption."""
import argparse
import json
import os
import statistics
import subprocess
import sys

from dlrm.scaling.command import measure_all
from dlrm.sweep.trials import STOPPED, read_json
from network import Network, run_apart, why_not

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

RANKS = 2
MODELS = {  # config, batch, steps, share of the rows, and settings
    "dle_mlp": ("bench/dle_mlp.yaml", 2048, 10, "1", []),
    "kaggle": ("criteo_kaggle.yaml", 2048, 30, "0.25", []),
    "tiny": ("synthetic/tiny.yaml", 4096, 20, "0.0625", []),
    "dcnv2": ("mlperf_dcnv2.yaml", 512, 6, "0.0078125", []),
    "dcnv2_bf16": ("mlperf_dcnv2.yaml", 512, 6, "0.0078125", ["train.precision=bf16"]),
}
# Synthetic labels have nothing to learn: large rates diverge.
SETTINGS = ["train.dense_optimizer.lr=0.001", "train.sparse_optimizer.lr=0.001", "train.threads=1", "device=cpu"]


def measure_machine(network, programs, path):
    """Each host is said to have the one processor that its rank can have of this machine's two."""
    command = ["mpirun", *network.mpirun_options(1).split(), "-np", str(RANKS), os.path.join(programs, "dlrm-bench"),
               "machine", "--threads", "1", "--largest", "4194304", "--output", path]
    subprocess.run(network.hosts[0].command(*command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    found = read_json(path, {})
    found["processors_per_node"] = 1
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=2)


def train(network, options, machine, name, kind, repeat):
    """The results of dlrm-scaling with two hosts, or its exit code."""
    config, batch, steps, rows, more = MODELS[name]
    output = os.path.join(options.output, name, f"{kind}{repeat}")
    os.environ["MPIRUN_OPTIONS"] = network.mpirun_options(1)
    launcher = [*network.hosts[0].command(os.path.join(ROOT, "launch/run.sh")), "-np", "{ranks}"]
    settings = [word for setting in [*SETTINGS, f"sharding.machine={machine}", *more] for word in ("--set", setting)]
    code = measure_all([os.path.join(ROOT, "configs", config), "--output", output, "--ranks", str(RANKS), "--repeats", "1",
                         "--batch", str(batch), "--steps", str(steps), "--rows-scale", rows, "--machine", machine,
                         "--launcher", " ".join(launcher), "--", *settings])
    return code if code in (2, STOPPED) else read_json(os.path.join(output, "results.json"), {})


def milliseconds(results):
    return 1e3 * results["points"][0]["batch"] / results["points"][0]["runs"][0]["samples_per_second"]


def row(name, fast, slow):
    """Figures of a model from the results of all its runs: medians."""
    without, step = (statistics.median(map(milliseconds, runs)) for runs in (fast, slow))
    predicted = slow[0]["predicted"][0]
    sent = slow[0]["points"][0]["runs"][0]["plan"]["between_nodes_bytes"] / RANKS
    return {"model": name, "mib_sent_by_a_host": sent / 2 ** 20, "unlimited_ms": without, "slow_ms": step,
            "exposed_ms": step - without, "predicted_slow_ms": predicted["step_ms"],
            "predicted_exposed_ms": predicted["exchange_ms"]["exposed"], "exchange_ms": predicted["exchange_ms"]["total"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--programs", default=os.path.join(ROOT, "build/cpu/bin"))
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    os.environ["DLRM_TRAIN"] = os.path.join(os.path.abspath(options.programs), "dlrm-train")
    os.makedirs(options.output, exist_ok=True)
    networks = {"fast": Network(RANKS), "slow": Network(RANKS)}
    try:
        for host in networks["slow"].hosts:
            networks["slow"].throttle(host, options.rate)
        machine = os.path.abspath(os.path.join(options.output, "machine.json"))
        if not os.path.exists(machine):
            measure_machine(networks["slow"], os.path.abspath(options.programs), machine)
        found = {}
        for repeat in range(options.repeats):
            for name in options.only:
                for kind in ("fast", "slow"):
                    results = train(networks[kind], options, machine, name, kind, repeat)
                    if isinstance(results, int):
                        return results
                    found.setdefault((name, kind), []).append(results)
    finally:
        for network in networks.values():
            network.stop()
    rows = [row(name, found[name, "fast"], found[name, "slow"]) for name in options.only]
    with open(os.path.join(options.output, "exposed.json"), "w", encoding="utf-8") as file:
        json.dump({"rate": options.rate, "rows": rows}, file, indent=2)
    print("\n" + "".join(f"{key.removesuffix('_ms'):>20}" for key in rows[0]))
    for figures in rows:
        print("".join(f"{value:>20}" if isinstance(value, str) else f"{value:>20.1f}" for value in figures.values()))
    return 0


if __name__ == "__main__":
    reason = why_not()
    if reason:
        sys.exit(f"error: {reason}")
    run_apart()
    sys.exit(main())
