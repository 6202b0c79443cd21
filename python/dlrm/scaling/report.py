"""The table and the figure of dlrm-scaling, from its results.json."""
import glob
import json
import os
import statistics

from .. import figures, places

CONFIG = "config"  # instead of a sharding: what the config says
EXCHANGES = ("route", "return", "allreduce")  # stages in which a rank waits for others
STAGES = ("data", "route", "lookup", "bottom", "return", "interact", "top", "loss", "backward", "allreduce", "update")
PUBLISHED = os.path.join(places.CONFIGS, "published")


def good_runs(entry):
    return [run for run in entry["runs"] if "error" not in run]


def rate(entry):
    return statistics.median(run["samples_per_second"] for run in good_runs(entry))


def exchange_share(run):
    """The part of the stages' time in those that wait for other ranks."""
    stages = run.get("stages_ms") or {}
    total = sum(stages.values())
    return sum(stages.get(name, 0) for name in EXCHANGES) / total if total else 0.0


def counted_bytes(run):
    return run.get("plan", {}).get("exchange_bytes", 0) / 2 ** 20


def planned_bytes(run):
    return run.get("plan", {}).get("expected_exchange_bytes", 0) / 2 ** 20


def peak_memory(run):
    return run["memory"]["process_peak_bytes"] / 2 ** 30


def groups(results):
    """The points with results of each mode, kind of data and sharding, by ranks."""
    found = {}
    for entry in sorted(results["points"], key=lambda entry: entry["ranks"]):
        if good_runs(entry):
            found.setdefault((entry["mode"], entry["data"], entry.get("sharding")), []).append(entry)
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
    cores = results.get("processors")
    if cores and any(entry["ranks"] > cores for found in groups(results).values() for entry in found):
        lines.append(f"this machine has {cores} processors: with more ranks they take turns, so that steps take longer than on "
                     "as many processors")
    if not groups(results):
        return "\n".join(lines + ["no results"])
    lines.append(f"{'mode':<8}{'data':<8}{'sharding':<14}{'ranks':>6}{'batch':>9}{'samples/s':>12}{'spread %':>10}{'efficiency':>12}{'p50 ms':>9}"
                 f"{'p99 ms':>9}{'exchange %':>12}{'MiB/step':>10}{'planned':>9}{'nodes':>9}{'max/mean':>10}{'GiB':>8}")
    for (mode, data, sharding), entries in groups(results).items():
        for entry in entries:
            rates = [run["samples_per_second"] for run in good_runs(entry)]
            spread = 100 * (max(rates) - min(rates)) / rate(entry)
            first = good_runs(entry)[0]
            plan = first.get("plan", {})
            lines.append(
                f"{mode:<8}{data:<8}{sharding or CONFIG:<14}{entry['ranks']:>6}{entry['batch']:>9}{rate(entry):>12.0f}{spread:>10.1f}"
                f"{efficiency(entry, entries[0]):>12.3f}{middle(entry, lambda r: r['step_ms']['p50']):>9.3f}"
                f"{middle(entry, lambda r: r['step_ms']['p99']):>9.3f}{100 * middle(entry, exchange_share):>12.1f}"
                f"{counted_bytes(first):>10.2f}{planned_bytes(first):>9.2f}"
                f"{plan.get('between_nodes_bytes', 0) / 2 ** 20:>9.2f}{plan.get('lookup_imbalance', 1):>10.2f}"
                f"{middle(entry, peak_memory):>8.2f}")
    return "\n".join(lines + stage_lines(results) + predicted_lines(results) + published_lines(results))


def stage_lines(results):
    """A table of the slowest rank's time in each stage."""
    def longest(run):
        return run.get("stages_max_ms") or {}

    points = [entry for entries in groups(results).values() for entry in entries if longest(good_runs(entry)[0])]
    if not points:
        return []
    found = {stage for entry in points for run in good_runs(entry) for stage in longest(run)}
    stages = [stage for stage in STAGES if stage in found] + sorted(found - set(STAGES))
    lines = ["", "ms a step of the rank that takes longest in each stage",
             f"{'mode':<8}{'data':<8}{'sharding':<14}{'ranks':>6}" + "".join(f"{stage:>11}" for stage in stages)]
    for entry in points:
        times = [middle(entry, lambda run: longest(run).get(stage, 0)) for stage in stages]
        lines.append(f"{entry['mode']:<8}{entry['data']:<8}{entry.get('sharding') or CONFIG:<14}{entry['ranks']:>6}"
                     + "".join(f"{ms:>11.3f}" for ms in times))
    return lines


def published_lines(results):
    """Steps of other programs with this config, for the numbers of ranks of this table."""
    config = os.path.realpath(results["config"])
    ranks = {point["ranks"] for point in results["points"] + results.get("predicted", [])}
    lines = []
    for path in sorted(glob.glob(os.path.join(PUBLISHED, "*.json"))):
        with open(path, encoding="utf-8") as file:
            published = json.load(file)
        steps = [f"{point['ms']:g} ms on {point['ranks']}" for point in published["points"] if point["ranks"] in ranks
                 and os.path.realpath(os.path.join(places.HOME, point["config"])) == config]
        if steps:
            lines += ["", f"published steps of {published['program']} ({published['source']}): {', '.join(steps)}"]
    return lines


def measured_step(results, point):
    """The step on fresh data in ms, or None if there is none on the machine of the prediction."""
    for entry in groups(results).get((point["mode"], "fresh", point["sharding"]), []):
        if entry["ranks"] == point["ranks"] and is_own_machine(point, entry):
            return 1e3 * entry["batch"] / rate(entry)
    return None


def is_own_machine(point, entry):
    """Whether the machine file was measured on a processor as that of the runs, by the name that it gives itself."""
    processor = (point["machine"]["processor"] or "").partition(" (family")[0]
    return not point["full_size"] and all(run.get("device") == f"cpu: {processor}" for run in good_runs(entry))


def predicted_lines(results):
    """A table for each machine."""
    lines = []
    points = results.get("predicted", [])
    for machine in {(point["machine"]["name"], point["full_size"]): None for point in points}:
        found = [point for point in points if (point["machine"]["name"], point["full_size"]) == machine]
        measured = [measured_step(results, point) for point in found]
        what = ", all rows and the config's batch" if found[0]["full_size"] else "" if any(measured) else ", another machine"
        lines += ["", f"predicted by dlrm-bench simulate for {machine[0]}{what}, not measured",
                  f"{'mode':<8}{'sharding':<14}{'ranks':>6}{'batch':>9}{'samples/s':>12}{'step ms':>11}{'exposed ms':>12}"
                  f"{'hidden ms':>11}{'MiB in node':>13}{'with others':>13}{'GiB a rank':>12}{'measured ms':>13}{'error %':>9}"]
        for point, ms in zip(found, measured):
            exchange, sent = point["exchange_ms"], point["exchanged_bytes"]
            error = f"{ms:>13.3f}{100 * (point['step_ms'] / ms - 1):>+9.1f}" if ms else f"{'-':>13}{'-':>9}"
            lines.append(f"{point['mode']:<8}{point['sharding'] or CONFIG:<14}{point['ranks']:>6}{point['batch']:>9}"
                         f"{point['samples_per_second']:>12.0f}{point['step_ms']:>11.3f}{exchange['exposed']:>12.3f}"
                         f"{exchange['hidden']:>11.3f}{sent['rank_within_node'] / 2 ** 20:>13.2f}"
                         f"{sent['node_with_others'] / 2 ** 20:>13.2f}{point['memory_bytes'] / 2 ** 30:>12.2f}{error}")
    return lines


def figure(results, path):
    drawing, ((rates, share, exchange), (steps, sent, memory)) = figures.pyplot().subplots(2, 3, figsize=(13, 8))
    for (*words, sharding), entries in groups(results).items():
        ranks = [entry["ranks"] for entry in entries]
        label = ", ".join([*words, sharding] if sharding else words)
        (line,) = rates.plot(ranks, [rate(entry) for entry in entries], marker="o", label=label)
        first = entries[0]
        rates.plot(ranks, [rate(first) * n / first["ranks"] for n in ranks], linestyle=":", color=line.get_color())
        share.plot(ranks, [efficiency(entry, first) for entry in entries], marker="o")
        exchange.plot(ranks, [100 * middle(entry, exchange_share) for entry in entries], marker="o")
        for panel, solid, dotted in ((steps, lambda run: run["step_ms"]["p50"], lambda run: run["step_ms"]["p99"]),
                                     (sent, counted_bytes, planned_bytes)):
            (line,) = panel.plot(ranks, [middle(entry, solid) for entry in entries], marker="o")
            panel.plot(ranks, [middle(entry, dotted) for entry in entries], linestyle=":", color=line.get_color())
        memory.plot(ranks, [middle(entry, peak_memory) for entry in entries], marker="o")
    lines = {}
    for point in results.get("predicted", []):
        key = point["machine"]["name"].partition(":")[0], point["mode"], point["sharding"], point["full_size"]
        lines.setdefault(key, []).append(point)
    for (machine, mode, sharding, full_size), points in lines.items():
        label = ", ".join([mode, *([sharding] if sharding else []), "predicted", *([machine] if full_size else [])])
        rates.plot([point["ranks"] for point in points], [point["samples_per_second"] for point in points], linestyle="--",
                   marker="o", markerfacecolor="none", label=label)
    rates.set(ylabel="samples/s (dotted: without loss)", yscale="log")
    share.set(ylabel="efficiency", ylim=(0, None))
    exchange.set(ylabel="time in stages that wait for other ranks, %", ylim=(0, None))
    steps.set(ylabel="step, ms: p50 (dotted: p99)", ylim=(0, None))
    sent.set(ylabel="exchange, MiB a step (dotted: planned)", ylim=(0, None))
    memory.set(ylabel="memory of rank 0, GiB", ylim=(0, None))
    for panel in (rates, share, exchange, steps, sent, memory):
        panel.set_xscale("log", base=2)
        panel.set_xlabel("ranks")
        panel.grid(alpha=0.3)
    rates.legend(fontsize="small")
    drawing.suptitle(os.path.basename(results["config"]))
    drawing.tight_layout()
    figures.save(drawing, path)
