#!/usr/bin/env python3
"""The tables of a comparison, from the JSON that compare.py wrote: compare_report.py FILE.json"""
import json
import statistics
import sys

PEERS = {"torch": "PyTorch", "fbgemm": "FBGEMM", "compiled": "compiled"}


def number(x):
    if x >= 10000:
        return f"{x / 1000:.1f}k"
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def spread(values):
    """Median (least to most)."""
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


def limit(row, limits):
    """Samples/s at the machine's limit: that of products or that of memory, whichever is less."""
    product = limits["gflops"]["sgemm" if row["precision"] == "fp32" else "onednn_bf16"]
    return min(1e9 * product / row["flops"], 1e9 * limits["gb_per_second"]["triad"] / row["bytes"])


def peer(rates):
    """The median of the better number of threads, and that number."""
    return max((statistics.median(found), threads) for threads, found in rates.items())


def table_line(row):
    ours, share = statistics.median(row["ours"]), statistics.median(row["shares"])
    cells = [row["model"], row["precision"], str(row["batch"]), spread(row["ours"]), f"{100 * share:.0f} %"]
    for kind in PEERS:
        rate, threads = peer(row["peers"][kind])
        cells.append(f"{ours / rate:.2f}× ({number(rate)}, {threads})")
    return "| " + " | ".join(cells) + " |"


def limits_lines(limits):
    for part, unit in (("gflops", "GFLOP/s"), ("gb_per_second", "GB/s")):
        for name in limits[0][part]:
            values = [own[part][name] for own in limits]
            if None not in values:
                yield f"- {name}: {spread(values)} {unit}"


def markdown(result):
    lines = []
    for isa, own in result.items():
        first = next(iter(own["rows"].values()))
        versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
        lines += [f"{isa}, {own['limits'][0]['processor']}, {versions}, {first['date']}. Samples/s, median (least to most); "
                  "of peers in brackets, with the better number of threads.", "", *limits_lines(own["limits"]), "",
                  "| model | precision | batch | ours | share of the limit | over " + " | over ".join(PEERS.values()) + " |",
                  "|---" * (5 + len(PEERS)) + "|", *(table_line(row) for row in own["rows"].values()), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as opened:
        print(markdown(json.load(opened)))
