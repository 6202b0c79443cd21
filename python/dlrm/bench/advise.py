"""Finds the fastest and the cheapest machine for a model, from sweeps that were measured on each of them.

    python3 -m dlrm.bench.advise FILE.json [MORE.json ...] --prices PRICES.yaml [--infer] [--output FIGURE.png]

FILE.json is what `dlrm-bench batch-sweep --output` wrote on one machine, or with --infer what
`dlrm-bench infer --output` wrote, one series for each type of the tables. PRICES.yaml has the price of
an hour of each machine, by the name of its file:

    currency: USD
    per_hour: {small.json: 0.10, large.json: 0.40}

It prints three tables: for each batch size the fastest and the cheapest machine, with the batch sizes
at which that changes; for each rate that must be reached, the machine with the lowest price; for each
limit of the time of a batch, the fastest and the cheapest machine and batch size. The time of a batch
is the mean of a step in training, and the 99th percentile in inference. Between two measured batch
sizes, rates are interpolated on logarithmic scales. The figure shows both choices by batch size.
"""
from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import os
import sys

from .. import figures
from ..endings import Parser, need, program


@dataclasses.dataclass
class Point:
    batch: int
    rate: float  # samples/s
    milliseconds: float  # of a batch


@dataclasses.dataclass
class Series:
    """The points of one machine, by batch size."""
    name: str
    price: float  # of an hour
    points: list

    def at(self, batch):
        return next((point for point in self.points if point.batch == batch), None)

    def cost(self, point):
        """Of a billion samples."""
        return self.price / 3600 / point.rate * 1e9


def read(path, what, parse):
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file)
    except ValueError as error:
        figures.fail(f"{path}: no {what}: {str(error).splitlines()[0]}")


def read_prices(path):
    """(currency, {name of a file: price of an hour})."""
    need(yaml="PyYAML")
    import yaml

    def parse(file):
        try:
            given = yaml.safe_load(file)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
        if not isinstance(given, dict) or not isinstance(given.get("per_hour"), dict):
            raise ValueError("it must have a map `per_hour` from files to prices")
        for name, price in given["per_hour"].items():
            if isinstance(price, bool) or not isinstance(price, (int, float)) or not 0 < price < math.inf:
                raise ValueError(f"per_hour: {name}: {price!r} must be a number above 0")
        return str(given.get("currency", "USD")), given["per_hour"]

    return read(path, "prices", parse)


def training_series(sweep):
    points = [Point(p["batch"], p["samples_per_second"], 1e3 * p["batch"] / p["samples_per_second"])
              for p in sweep["points"]]
    return {"": points}, (sweep["config"], sweep["samples"])


def inference_series(sweep):
    return {", " + model["tables"]: [Point(p["batch"], p["samples_per_second"], p["p99_ms"])
                                     for p in model["batches"]]
            for model in sweep["models"]}, (sweep["checkpoint"], sweep["step"])


def read_series(paths, prices, infer):
    """The series of all files. They must be of the same model."""
    found, first = [], None
    for path in paths:
        base = os.path.basename(path)
        if base not in prices:
            figures.fail(f"{path}: the prices have no `per_hour: {base}`")
        sweep = read(path, "JSON", json.load)
        try:
            series, model = inference_series(sweep) if infer else training_series(sweep)
        except (KeyError, TypeError, ZeroDivisionError):
            program = "infer" if infer else "batch-sweep"
            figures.fail(f"{path}: not written by dlrm-bench {program} --output"
                         + ("" if infer else "; for dlrm-bench infer add --infer"))
        first = first or model
        if model != first:
            figures.fail(f"{path}: measured {model[0]} ({model[1]}), {paths[0]} measured {first[0]} ({first[1]}): "
                         "only sweeps of one model compare")
        name = os.path.splitext(base)[0]
        for kind, points in series.items():
            found.append(Series(name + kind, prices[base], sorted(points, key=lambda p: p.batch)))
    return found


def best(series, batch, worth):
    """The series with the lowest worth(series, point) at a batch size."""
    there = [(worth(s, s.at(batch)), s) for s in series if s.at(batch)]
    return min(there, key=lambda found: found[0])[1]


def by_rate(_, point):
    return -point.rate


def by_cost(series, point):
    return series.cost(point)


def crossing(one, other, left, right, worth):
    """The batch size from which `other` is better than `one`, between two measured ones."""
    def gap(batch):
        return math.log(abs(worth(other, other.at(batch))) / abs(worth(one, one.at(batch))))

    before, after = gap(left), gap(right)
    return left * (right / left) ** (before / (before - after)) if before != after else right


def choices(series, worth):
    """[(batch size, the best series)], and [(batch size, the series that is the best from there on)]."""
    batches = sorted({p.batch for s in series for p in s.points})
    chosen = [(batch, best(series, batch, worth)) for batch in batches]
    changes = []
    for (left, one), (right, other) in zip(chosen, chosen[1:]):
        if one is other:
            continue
        shared = all(s.at(batch) for s in (one, other) for batch in (left, right))
        changes.append((crossing(one, other, left, right, worth) if shared else right, other))
    return chosen, changes


def print_batches(series, currency):
    fastest, faster = choices(series, by_rate)
    cheapest, cheaper = choices(series, by_cost)
    print(f"{'batch':>8}  {'fastest':<28}{'samples/s':>12}  {'cheapest':<28}{currency + ' per 10^9 samples':>24}")
    for (batch, fast), (_, cheap) in zip(fastest, cheapest):
        print(f"{batch:>8}  {fast.name:<28}{fast.at(batch).rate:>12.0f}  {cheap.name:<28}"
              f"{cheap.cost(cheap.at(batch)):>24.3f}")
    for what, changes in [("fastest", faster), ("cheapest", cheaper)]:
        for batch, to in changes:
            print(f"from batch {batch:.0f} on, {to.name} is the {what}")


def print_rates(series, currency):
    print(f"\n{'up to samples/s':>16}  {'lowest price':<28}{'batch':>8}{currency + ' per hour':>16}")
    reached = 0
    for s in sorted(series, key=lambda s: (s.price, -max(p.rate for p in s.points))):
        top = max(s.points, key=lambda p: p.rate)
        if top.rate > reached:
            print(f"{top.rate:>16.0f}  {s.name:<28}{top.batch:>8}{s.price:>16.3f}")
            reached = top.rate


def print_limits(series, currency):
    print(f"\n{'ms of a batch':>16}  {'fastest':<28}{'batch':>8}{'samples/s':>12}  {'cheapest':<28}{'batch':>8}"
          f"{currency + ' per 10^9':>16}")
    fast = cheap = None
    points = sorted(((s, p) for s in series for p in s.points), key=lambda found: found[1].milliseconds)
    for limit, within in itertools.groupby(points, key=lambda found: found[1].milliseconds):
        before = fast, cheap
        for s, p in within:
            fast = (s, p) if fast is None or p.rate > fast[1].rate else fast
            cheap = (s, p) if cheap is None or s.cost(p) < cheap[0].cost(cheap[1]) else cheap
        if (fast, cheap) != before:
            print(f"{limit:>16.3f}  {fast[0].name:<28}{fast[1].batch:>8}{fast[1].rate:>12.0f}  "
                  f"{cheap[0].name:<28}{cheap[1].batch:>8}{cheap[0].cost(cheap[1]):>16.3f}")


def draw(series, currency):
    figure, (rate, cost) = figures.pyplot().subplots(1, 2, figsize=(10, 4))
    for s in series:
        batches = [p.batch for p in s.points]
        rate.plot(batches, [p.rate for p in s.points], marker="o", label=s.name)
        cost.plot(batches, [s.cost(p) for p in s.points], marker="o")
    for panel, worth in [(rate, by_rate), (cost, by_cost)]:
        for batch, to in choices(series, worth)[1]:
            panel.axvline(batch, color="gray", linestyle="--")
            panel.annotate(f"{to.name} from {batch:.0f}", (batch, 0.02), xycoords=("data", "axes fraction"),
                           rotation=90, fontsize="small")
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel("batch size")
        panel.grid(alpha=0.3)
    rate.set_ylabel("samples/s")
    cost.set_ylabel(f"{currency} per 10^9 samples")
    rate.legend(fontsize="small")
    figure.tight_layout()
    return figure


def run(words: list[str]) -> None:
    parser = Parser(prog="python3 -m dlrm.bench.advise", description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("--prices", required=True, metavar="PRICES.yaml")
    parser.add_argument("--infer", action="store_true", help="the files are those of dlrm-bench infer")
    parser.add_argument("--output", help="figure to write: .png, .svg or .pdf")
    given = parser.parse_args(words)
    currency, prices = read_prices(given.prices)
    series = read_series(given.files, prices, given.infer)
    figure = draw(series, currency) if given.output else None
    print_batches(series, currency)
    print_rates(series, currency)
    print_limits(series, currency)
    if figure is not None:
        figures.save(figure, given.output)


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
