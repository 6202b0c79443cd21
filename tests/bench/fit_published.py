#!/usr/bin/env python3
"""Fits the costs of a program with published step times, for dlrm-bench simulate --published.

    fit_published.py configs/published/distributed_embeddings.json --machine configs/machines/a100_dgx.json

The sum of the squared relative errors at the points that the file calls fitted is made least. Prints the costs, then
the errors at all points. Changes no file."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COSTS = ("id", "element", "input", "model_input")


def predict(options, times, seconds):
    """The step times of all points in ms."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = os.path.join(folder, "times.json"), os.path.join(folder, "out.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**times, "seconds": dict(zip(COSTS, seconds))}, file)
        subprocess.run([options.program, "simulate", "--published", path, "--machine", options.machine, "--output", output],
                       stdout=subprocess.DEVNULL, check=True)
        with open(output, encoding="utf-8") as file:
            return [point["predicted_ms"] for point in json.load(file)["points"]]


def solve(matrix, vector):
    """Gaussian elimination with pivots."""
    rows = [row[:] + [value] for row, value in zip(matrix, vector)]
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(n):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def least_squares(rows, values):
    n = len(rows[0])
    products = [[sum(row[i] * row[j] for row in rows) for j in range(n)] for i in range(n)]
    return solve(products, [sum(row[i] * value for row, value in zip(rows, values)) for i in range(n)])


def fit(options, times):
    """Steps of Gauss and Newton. A step time is linear in the costs while the same rank is the slowest."""
    points = [i for i, point in enumerate(times["points"]) if point.get("fitted")]
    published = [times["points"][i]["ms"] for i in points]
    seconds = [times["seconds"][cost] for cost in COSTS]
    for _ in range(options.steps):
        now = predict(options, times, seconds)
        slopes = []
        for k in range(len(COSTS)):
            changed = list(seconds)
            changed[k] *= 1.01
            slopes.append([(a - b) / 0.01 for a, b in zip(predict(options, times, changed), now)])
        rows = [[slope[i] / ms for slope in slopes] for i, ms in zip(points, published)]
        moves = least_squares(rows, [1 - now[i] / ms for i, ms in zip(points, published)])
        seconds = [cost * min(max(1 + move, 0.2), 5) for cost, move in zip(seconds, moves)]
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--machine", required=True)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "cpu", "bin", "dlrm-bench"))
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    with open(options.file, encoding="utf-8") as file:
        times = json.load(file)
    seconds = fit(options, times)
    print(json.dumps({cost: float(f"{value:.3g}") for cost, value in zip(COSTS, seconds)}))
    for point, ms in zip(times["points"], predict(options, times, seconds)):
        print(f"{point['config']:<36}{point['ranks']:>5}{100 * (ms / point['ms'] - 1):>+8.1f} %"
              f"{'  fitted' if point.get('fitted') else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
