#!/usr/bin/python3
"""The work of the host for a sample of a model: reading it, and checking and routing its ids, on one core.

    tests/bench/host_work.py [CONFIG] [--programs build/cpu/bin] [--samples 400000] [--batch 8192] [--rounds 3]
        [--rate 4e6]

Trains one epoch on a dataset in the page cache with the inputs of CONFIG (default: configs/mlperf_dcnv2.yaml), and
with a model that is as small as these allow. The training thread reads and routes itself, so its stages `data` and
`route` are the host's work. With a GPU the same code runs on the host. Prints the medians, and the cores that RATE
samples a second take.
"""
import argparse
import os
import statistics
import tempfile

import yaml

import contestants

WIDTH = 4
MOST_ROWS = 100000


def small_model(config):
    """The same features, with narrow tables of few rows and almost no dense layers."""
    model = config["model"]
    for table in model["tables"]:
        table["rows"] = min(table["rows"], MOST_ROWS)
        table.pop("dim", None)
    model.update(embedding_dim=WIDTH, bottom_mlp=[WIDTH], top_mlp=[1], interaction="concat")
    return {"model": model, "data": {"source": "synthetic", "synthetic": {"samples": 1}},
            "train": {"global_batch_size": 1, "epochs": 1}}


def stages_of(programs, config, settings):
    """Seconds of each stage, of all steps of one epoch."""
    summary = contestants.train(programs, config, settings, before=["taskset", "-c", "0"])
    return {name: ms * summary["steps"] / 1e3 for name, ms in summary["stages_ms"].items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default=os.path.join(contestants.ROOT, "configs/mlperf_dcnv2.yaml"))
    parser.add_argument("--programs", default=os.path.join(contestants.ROOT, "build/cpu/bin"))
    parser.add_argument("--samples", type=int, default=400000)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=4e6)
    options = parser.parse_args()
    with open(options.config, encoding="utf-8") as file:
        model = small_model(yaml.safe_load(file))
    with tempfile.TemporaryDirectory() as folder:
        config, data = os.path.join(folder, "config.yaml"), os.path.join(folder, "data.h5")
        with open(config, "w", encoding="utf-8") as file:
            yaml.safe_dump(model, file)
        contestants.run([os.path.join(options.programs, "dlrm-data"), "synth", "--config", config, "--samples",
                         str(options.samples), "--output", data])
        size = os.path.getsize(data) / options.samples
        settings = {"data.source": "hdf5", "data.train": data, "data.workers": 0, "train.threads": 1,
                    "train.global_batch_size": options.batch}
        rounds = [stages_of(options.programs, config, settings) for _ in range(options.rounds)]
    steps = options.samples // options.batch
    total = 0
    for stage in ("data", "route"):
        seconds = statistics.median(times[stage] for times in rounds) / (steps * options.batch)
        total += seconds
        print(f"{stage}: {seconds * 1e9:.0f} ns a sample")
    print(f"{size:.0f} bytes a sample; a core does the work of {1 / total:.0f} samples a second; "
          f"{options.rate:.3g} take {options.rate * total:.1f} cores")


if __name__ == "__main__":
    main()
