"""The table and the figure of launch/scaling.sh, from its results.json."""
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXCHANGES = ("route", "return", "allreduce")  # stages in which a rank waits for others


def good_runs(entry):
    return [run for run in entry["runs"] if "error" not in run]


def rate(entry):
    return statistics.median(run["samples_per_second"] for run in good_runs(entry))


def exchange_share(run):
    """The part of the stages' time in those that wait for other ranks."""
    stages = run.get("stages_ms") or {}
    total = sum(stages.values())
    return sum(stages.get(name, 0) for name in EXCHANGES) / total if total else 0.0


def groups(results):
    """The points with results of each mode and kind of data, by ranks."""
    found = {}
    for entry in sorted(results["points"], key=lambda entry: entry["ranks"]):
        if good_runs(entry):
            found.setdefault((entry["mode"], entry["data"]), []).append(entry)
    return found


def efficiency(entry, first):
    """Samples per second and rank, over those of the smallest number of ranks."""
    return rate(entry) / entry["ranks"] / (rate(first) / first["ranks"])


def middle(entry, value):
    return statistics.median(value(run) for run in good_runs(entry))


def table(results):
    lines = [f"{results['config']}, {results['steps']} steps a run"]
    if results["rows_scale"] != 1:
        lines.append(f"tables have {results['rows_scale']:g} times the config's rows: processor caches hold a larger part of "
                     "them, and a batch uses a row more often")
    if not groups(results):
        return "\n".join(lines + ["no results"])
    lines.append(f"{'mode':<8}{'data':<8}{'ranks':>6}{'batch':>9}{'samples/s':>12}{'spread %':>10}{'efficiency':>12}{'p50 ms':>9}"
                 f"{'p99 ms':>9}{'exchange %':>12}{'MiB/step':>10}{'planned':>9}{'max/mean':>10}{'GiB':>8}")
    for (mode, data), entries in groups(results).items():
        for entry in entries:
            rates = [run["samples_per_second"] for run in good_runs(entry)]
            spread = 100 * (max(rates) - min(rates)) / rate(entry)
            plan = good_runs(entry)[0].get("plan", {})
            lines.append(
                f"{mode:<8}{data:<8}{entry['ranks']:>6}{entry['batch']:>9}{rate(entry):>12.0f}{spread:>10.1f}"
                f"{efficiency(entry, entries[0]):>12.3f}{middle(entry, lambda r: r['step_ms']['p50']):>9.3f}"
                f"{middle(entry, lambda r: r['step_ms']['p99']):>9.3f}{100 * middle(entry, exchange_share):>12.1f}"
                f"{plan.get('exchange_bytes', 0) / 2 ** 20:>10.2f}{plan.get('expected_exchange_bytes', 0) / 2 ** 20:>9.2f}"
                f"{plan.get('lookup_imbalance', 1):>10.2f}"
                f"{middle(entry, lambda r: r['memory']['process_peak_bytes']) / 2 ** 30:>8.2f}")
    return "\n".join(lines + predicted_lines(results))


def measured_step(results, point):
    """The step on fresh data in ms, or None if there is none."""
    for entry in groups(results).get((point["mode"], "fresh"), []):
        if entry["ranks"] == point["ranks"]:
            return 1e3 * entry["batch"] / rate(entry)
    return None


def predicted_lines(results):
    points = results.get("predicted")
    if not points:
        return []
    lines = ["", f"predicted by dlrm-bench simulate for {points[0]['machine']['name']}, not measured",
             f"{'mode':<8}{'ranks':>6}{'batch':>9}{'samples/s':>12}{'step ms':>11}{'exposed ms':>12}{'hidden ms':>11}"
             f"{'measured ms':>13}{'error %':>9}"]
    for point in points:
        exchange, measured = point["exchange_ms"], measured_step(results, point)
        error = f"{measured:>13.3f}{100 * (point['step_ms'] / measured - 1):>+9.1f}" if measured else f"{'-':>13}{'-':>9}"
        lines.append(f"{point['mode']:<8}{point['ranks']:>6}{point['batch']:>9}{point['samples_per_second']:>12.0f}"
                     f"{point['step_ms']:>11.3f}{exchange['exposed']:>12.3f}{exchange['hidden']:>11.3f}{error}")
    return lines


def figures():
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "data_tools"))
    import figures as found
    return found


def figure(results, path):
    drawing, (rates, share, exchange) = figures().pyplot().subplots(1, 3, figsize=(13, 4))
    for (mode, data), entries in groups(results).items():
        ranks = [entry["ranks"] for entry in entries]
        (line,) = rates.plot(ranks, [rate(entry) for entry in entries], marker="o", label=f"{mode}, {data}")
        first = entries[0]
        rates.plot(ranks, [rate(first) * n / first["ranks"] for n in ranks], linestyle=":", color=line.get_color())
        share.plot(ranks, [efficiency(entry, first) for entry in entries], marker="o")
        exchange.plot(ranks, [100 * middle(entry, exchange_share) for entry in entries], marker="o")
    for mode in dict.fromkeys(point["mode"] for point in results.get("predicted", [])):
        points = [point for point in results["predicted"] if point["mode"] == mode]
        rates.plot([point["ranks"] for point in points], [point["samples_per_second"] for point in points], linestyle="--",
                   marker="o", markerfacecolor="none", label=f"{mode}, predicted")
    rates.set(ylabel="samples/s (dotted: without loss)", yscale="log")
    share.set(ylabel="efficiency", ylim=(0, None))
    exchange.set(ylabel="time in stages that wait for other ranks, %", ylim=(0, None))
    for panel in (rates, share, exchange):
        panel.set_xscale("log", base=2)
        panel.set_xlabel("ranks")
        panel.grid(alpha=0.3)
    rates.legend(fontsize="small")
    drawing.suptitle(os.path.basename(results["config"]))
    drawing.tight_layout()
    figures().save(drawing, path)
