#!/usr/bin/env python3
"""The tables of a comparison, from the JSON that compare.py wrote: compare_report.py FILE.json [--stages]"""
import json
import statistics
import sys

import idle_machine


def spread(values, scale=1.0):
    """Median (least to most)."""
    v = [scale * x for x in values]
    return f"{number(statistics.median(v))} ({number(min(v))} to {number(max(v))})"


def number(x):
    if x >= 10000:
        return f"{x / 1000:.1f}k"
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def limit_of(result, key, part):
    return statistics.median(limits[part][key] for limits in result["limits"])


def ours(row, source):
    return [r["samples_per_second"] for r in row["ours"].get(source, [])]


def peer(row):
    """The rates of the better number of threads, and that number."""
    if not row["peer"]:
        return [], None
    threads = max(row["peer"], key=lambda t: statistics.median(row["peer"][t]))
    return row["peer"][threads], threads


def limit_samples(result, row):
    """Samples/s at the machine's limit: sgemm, or the triad for the bytes looked up."""
    if row["bound_by"] == "lookups":
        return 1e9 * limit_of(result, "triad", "gb_per_second") / row["lookup_bytes_per_sample"]
    return 1e9 * limit_of(result, "sgemm", "gflops") / row["flops_per_sample"]


def share(result, row, source):
    """Share of the limit: that of the whole step if MLPs limit it, that of the lookup stage if lookups do."""
    if row["bound_by"] != "lookups":
        return statistics.median(ours(row, source)) / limit_samples(result, row)
    ms = statistics.median(r["stages_ms"]["lookup"] for r in row["ours"][source])
    return row["batch"] / (1e-3 * ms) / limit_samples(result, row)


def over_base(result, row, source):
    base = result["rows"].get(row["base"])
    if not base or base is row or not ours(base, source):
        return None
    return statistics.median(ours(row, source)) / statistics.median(ours(base, source))


def with_goal(value, goal, form):
    """A figure and its goal."""
    if value is None:
        return "-"
    return form(value) + (f" (goal {form(goal)})" if goal else "")


def percent(x):
    return f"{100 * x:.0f} %"


def times(x):
    return f"{x:.2f}×"


def table_line(result, name, row):
    source = "hdf5" if ours(row, "hdf5") else next(iter(row["ours"]))
    rate, goals = ours(row, source), row["goals"]
    rival, threads = peer(row)
    ratio = statistics.median(rate) / statistics.median(rival) if rival else None
    drawn = ours(row, "synthetic") if source != "synthetic" else []
    reached = share(result, row, source) if row["precision"] == "fp32" else None
    cells = [name, number(limit_samples(result, row)), spread(rate), with_goal(reached, goals[0], percent),
             f"{spread(rival)}, {threads} thr." if rival else "-", with_goal(ratio, goals[1], times),
             with_goal(over_base(result, row, source), goals[2], times), spread(drawn) if drawn else "-"]
    return "| " + " | ".join(cells) + " |"


def limits_text(result):
    lines = []
    for part, unit in (("gflops", "GFLOP/s"), ("gb_per_second", "GB/s")):
        for key in result["limits"][0][part]:
            values = [limits[part][key] for limits in result["limits"]]
            if None not in values:
                lines.append(f"- {key}: {spread(values)} {unit}")
    return lines


def slow_figures(result):
    return sum(slowness > idle_machine.SLOWNESS_MOST for slowness in result["slowness"])


def markdown(result):
    first = result["limits"][0]
    lines = [f"{result['date']}, {first['processor']}, {first['threads']} threads, load before the rounds "
             f"{', '.join(f'{x:.2f}' for x in result['load'])}; {result['rounds']} rounds, "
             f"PyTorch {result.get('torch', 'not run')}. Other programs took at most "
             f"{100 * max(result['disturbed']):.0f} % of the machine during a figure; the cores fell behind their best "
             f"pace around {slow_figures(result)} of {len(result['slowness'])} figures. Samples/s: median "
             "(least to most).", ""]
    lines += limits_text(result)
    lines += ["", "| row | limit | ours | share of the limit | PyTorch | over PyTorch | over fp32 on one rank | "
              "ours, samples drawn meanwhile |", "|---|---|---|---|---|---|---|---|"]
    lines += [table_line(result, name, row) for name, row in result["rows"].items() if any(row["ours"].values())]
    return "\n".join(lines)


def stages(result):
    """Per row the mean time of each stage, in percent of the step."""
    lines = []
    for name, row in result["rows"].items():
        for source, runs in row["ours"].items():
            if not runs:
                continue
            run = sorted(runs, key=lambda r: r["samples_per_second"])[len(runs) // 2]
            step = run["step_ms"]["mean"]
            parts = sorted(run["stages_ms"].items(), key=lambda item: -item[1])
            text = ", ".join(f"{k} {100 * v / step:.1f}" for k, v in parts)
            covered = 100 * sum(run["stages_ms"].values()) / step
            lines.append(f"{name} {source}: {step:.4g} ms = {text} (together {covered:.1f} %), data wait "
                         f"{100 * run['data_wait_share']:.1f} %")
    return "\n".join(lines)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        loaded = json.load(file)
    print(stages(loaded) if "--stages" in sys.argv else markdown(loaded))
