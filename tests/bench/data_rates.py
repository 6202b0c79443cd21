#!/usr/bin/python3
"""How fast dlrm-data reads Criteo's logs and draws synthetic datasets, on one core.

    tests/bench/data_rates.py [--programs build/cpu/bin] [--megabytes 256] [--rounds 3]

The log is of `dlrm-data synth --criteo`. Prints medians and spread, in MB of raw text (criteo) and of the file written
(synth) a second.
"""
import argparse
import os
import statistics
import tempfile
import time

import contestants


def rate_of(command, counted):
    """MB of the file `counted` a second of `command`."""
    start = time.monotonic()
    contestants.run(command)
    return os.path.getsize(counted) / 1e6 / (time.monotonic() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", default=os.path.join(contestants.ROOT, "build/cpu/bin"))
    parser.add_argument("--megabytes", type=float, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    program = os.path.join(options.programs, "dlrm-data")
    with tempfile.TemporaryDirectory() as folder:
        log, output = os.path.join(folder, "log.tsv"), os.path.join(folder, "out.h5")
        contestants.run([program, "synth", "--criteo", "--samples", str(int(options.megabytes * 4000)), "--output", log])
        config = os.path.join(contestants.ROOT, "configs/bench/kaggle.yaml")
        commands = {
            "criteo": ([program, "criteo", "--threads", "1", "--output", output, log], log),
            "synth": (["taskset", "-c", "0", program, "synth", "--config", config, "--alpha", "0", "--samples",
                       str(int(options.megabytes * 6000)), "--output", output], output)}
        for name, (command, counted) in commands.items():
            rates = []
            for _ in range(options.rounds):
                rates.append(rate_of(command, counted))
                os.remove(output)
            print(f"{name}: {statistics.median(rates):.0f} MB/s ({min(rates):.0f} to {max(rates):.0f}), one core")


if __name__ == "__main__":
    main()
