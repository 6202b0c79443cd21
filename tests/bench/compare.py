#!/usr/bin/python3
"""Compares dlrm-train with DLRM in PyTorch on this machine: same shapes, in turn, several rounds, with the
machine's limits.

    tests/bench/compare.py [--programs build/cpu/bin] [--rows 'kaggle-*,dle-2048'] [--rounds 3] [--output FILE.json]

Prints medians, spread and ratios as a Markdown table, and writes every figure as JSON. Needs the packages of the
groups build and torch (launch/install_deps.sh build torch), an idle machine, and some 8 GiB of memory.
"""
import argparse
import datetime
import fnmatch
import json
import os
import sys
import tempfile

import compare_report
import contestants
import idle_machine
import model_shapes
from compare_rows import MODELS, ROWS


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", default=os.path.join(contestants.ROOT, "build/cpu/bin"))
    parser.add_argument("--rows", default="*", help="names, with * and ?, separated by commas; --list shows them")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and end")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of training in each measurement")
    parser.add_argument("--sources", default="hdf5,synthetic", help="of our data: hdf5, synthetic")
    parser.add_argument("--patience", type=float, default=60.0,
                        help="seconds to wait, before each figure, for other programs to leave the machine idle")
    parser.add_argument("--tries", type=int, default=5,
                        help="at most, for a figure that others disturb: other programs, or a slow spell of the cores")
    parser.add_argument("--no-peer", action="store_true", help="without PyTorch")
    parser.add_argument("--data", default=os.path.join(tempfile.gettempdir(), "dlrm-compare"),
                        help="folder for the datasets")
    parser.add_argument("--output", help="JSON to write")
    parser.add_argument("--markdown", help="the table, to write as well as print")
    return parser.parse_args()


def chosen_rows(patterns):
    rows = [r for r in ROWS if any(fnmatch.fnmatchcase(r.name, p) for p in patterns.split(","))]
    if not rows:
        raise SystemExit(f"--rows {patterns}: no such row; --list shows them")
    return rows


def best_of_limits(a, b):
    best = dict(a)
    for group in ("gflops", "gb_per_second"):
        best[group] = {name: max(rate, b[group][name]) for name, rate in a[group].items()}
    return best


class Comparison:
    def __init__(self, options, rows):
        self.options, self.rows = options, rows
        self.sources = options.sources.split(",")
        self.ours = contestants.Ours(options.programs, options.data)
        self.config = {m: os.path.join(contestants.ROOT, path) for m, path in MODELS.items()}
        self.shapes = {m: model_shapes.load(path) for m, path in self.config.items()}
        self.idle = idle_machine.IdleMachine(patience=options.patience, tries=options.tries)
        self.peers = {}
        self.rates = {}  # samples/s last seen, to know how many steps fill the time
        self.result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                       "command": " ".join(sys.argv), "rounds": options.rounds, "seconds": options.seconds,
                       "limits": [], "load": [], "disturbed": [], "slowness": [], "rows": {}}
        for row in rows:
            shapes = self.shapes[row.model]
            self.result["rows"][row.name] = {
                "model": row.model, "batch": row.batch, "precision": row.precision, "ranks": row.ranks,
                "base": row.base.name, "flops_per_sample": shapes.flops_per_sample(),
                "lookup_bytes_per_sample": shapes.lookup_bytes_per_sample(),
                "bound_by": "lookups" if row.bound_by_lookups else "compute", "goals": row.goals,
                "ours": {s: [] for s in self.sources}, "peer": {}}

    def run(self):
        try:
            for round_number in range(self.options.rounds):
                self.run_round(round_number)
        finally:
            for peer in self.peers.values():
                peer.close()

    def run_round(self, round_number):
        self.result["load"].append(os.getloadavg()[0])
        self.result["limits"].append(self.undisturbed(lambda: self.ours.limits(1.0), best_of_limits))
        self.say(f"round {round_number + 1}: load {os.getloadavg()[0]:.2f}, "
                 f"sgemm {self.result['limits'][-1]['gflops']['sgemm']:.0f} GFLOP/s, "
                 f"triad {self.result['limits'][-1]['gb_per_second']['triad']:.1f} GB/s")
        for row in self.rows:
            turns = [self.measure_ours, self.measure_peer]
            for turn in turns if round_number % 2 == 0 else reversed(turns):
                turn(row)
            self.write()

    def write(self):
        """After each row: what is measured outlives an interrupted run."""
        if self.options.output:
            with open(self.options.output, "w", encoding="utf-8") as file:
                json.dump(self.result, file, indent=1)

    def measure_ours(self, row):
        found = self.result["rows"][row.name]["ours"]
        for source in self.sources:
            rate = self.rates.get((row.name, source)) or self.guess(row)
            steps = max(10, int(self.options.seconds * rate / row.batch))
            summary = self.undisturbed(lambda: self.ours.train(row, self.config[row.model], source, steps),
                                       lambda a, b: max(a, b, key=lambda run: run["samples_per_second"]))
            kept = {k: summary[k] for k in ("samples_per_second", "steps", "step_ms", "stages_ms", "data_wait_share",
                                            "cpu_utilization", "memory")}
            found[source].append(kept)
            self.rates[row.name, source] = summary["samples_per_second"]
            self.say(f"  {row.name:22} ours, {source:9} {summary['samples_per_second']:12.0f} samples/s")

    def measure_peer(self, row):
        if self.options.no_peer or not row.has_peer:
            return
        if row.model not in self.peers:
            self.peers[row.model] = contestants.Peer(self.config[row.model])
            self.result["torch"] = self.peers[row.model].version
        peer = self.peers[row.model]
        for threads in (1, 2):
            rate = self.undisturbed(lambda: peer.measure(row.batch, threads, self.options.seconds), max, peer.process.pid)
            self.result["rows"][row.name]["peer"].setdefault(str(threads), []).append(rate)
            self.say(f"  {row.name:22} PyTorch, {threads} thread{'s'[:threads - 1]:1} {rate:10.0f} samples/s")

    def undisturbed(self, call, faster, pid=None):
        value, disturbance = self.idle.measure(call, faster, pid)
        self.result["disturbed"].append(disturbance.others)
        self.result["slowness"].append(disturbance.slowness)
        if disturbance.others > self.idle.others_most:
            self.say(f"  other programs took {100 * disturbance.others:.0f} % of the machine during this figure:")
        return value

    def guess(self, row):
        limits, shapes = self.result["limits"][-1], self.shapes[row.model]
        if row.bound_by_lookups:
            return 0.1 * limits["gb_per_second"]["triad"] * 1e9 / shapes.lookup_bytes_per_sample()
        return 0.3 * limits["gflops"]["sgemm"] * 1e9 / shapes.flops_per_sample()

    @staticmethod
    def say(text):
        print(text, file=sys.stderr, flush=True)


def main():
    options = arguments()
    rows = chosen_rows(options.rows)
    if options.list:
        print("\n".join(r.name for r in rows))
        return
    comparison = Comparison(options, rows)
    comparison.run()
    table = compare_report.markdown(comparison.result)
    print(table)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write(table + "\n")


if __name__ == "__main__":
    main()
