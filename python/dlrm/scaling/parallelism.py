"""dlrm-scaling for each of several configs, and one table of them all."""
from __future__ import annotations

import argparse
import os
import sys

from .. import places
from ..endings import Parser, program
from ..sweep.trials import STOPPED, read_json
from .command import measure_all
from .report import good_runs, rate

CONFIGS = [os.path.join(places.CONFIGS, "synthetic", name) for name in ("tiny.yaml", "small.yaml")]
MACHINES = [os.path.join(places.CONFIGS, "machines", name) for name in ("a100_dgx.json", "h200_dgx.json")]
DEFAULTS = ["--sharding", "table,auto,data_parallel", "--ranks", "1,2,4,8,16", "--rows-scale", "auto", "--batch", "4096",
            "--steps", "30", "--predict-for", ",".join(MACHINES)]


def parse(words):
    parser = Parser(
        prog="python3 -m dlrm.scaling.parallelism", allow_abbrev=False,
        description="Compares model-parallel, data-parallel and planned tables by the time of a step. The same command "
        "continues after an interruption.",
        epilog=f"All other words go to dlrm-scaling. Without them: {' '.join(DEFAULTS[:-1])} A100s and H200s.")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="a folder for each config")
    parser.add_argument("--configs", type=lambda text: text.split(","), default=CONFIGS, metavar="CONFIG,CONFIG",
                        help="(default: Tiny and Small of configs/synthetic)")
    return parser.parse_known_args(words)


def name_of(config):
    return os.path.splitext(os.path.basename(config))[0]


def steps(results):
    """ms by machine and what ran there, mode, number of ranks, and sharding."""
    found = {}
    scaled = "" if results["rows_scale"] == 1 else f", {results['rows_scale']:g} of the rows"
    for entry in results["points"]:
        if good_runs(entry):
            row = f"measured here{scaled}", entry["mode"], entry["ranks"], entry["batch"]
            found.setdefault(row, {})[entry["sharding"]] = 1e3 * entry["batch"] / rate(entry)
    for point in results.get("predicted", []):
        size = "" if point["full_size"] else scaled
        row = f"predicted, {point['machine']['name'].partition(':')[0]}{size}", point["mode"], point["ranks"], point["batch"]
        found.setdefault(row, {})[point["sharding"]] = point["step_ms"]
    return found


def table(results_of):
    """A line for each machine and number of ranks of each model."""
    rows = {(name, *row): ms for name, results in results_of.items() for row, ms in steps(results).items()}
    shardings = list(dict.fromkeys(entry["sharding"] for results in results_of.values() for entry in results["points"]))
    width = max((len(where) for _, where, *_ in rows), default=0) + 2
    lines = [f"{'ms a step':<{width}}{'model':<12}{'mode':<8}{'ranks':>6}{'batch':>9}"
             + "".join(f"{sharding or 'config':>15}" for sharding in shardings) + "   fastest"]
    for (name, where, mode, ranks, batch), ms in rows.items():
        cells = "".join(f"{ms[sharding]:>15.3f}" if sharding in ms else f"{'-':>15}" for sharding in shardings)
        lines.append(f"{where:<{width}}{name:<12}{mode:<8}{ranks:>6}{batch:>9}{cells}   {min(ms, key=ms.get) or 'config'}")
    return "\n".join(lines)


def run(words: list[str]) -> int:
    options, others = parse(words)
    worst, results = 0, {}
    for config in options.configs:
        folder = os.path.join(options.output, name_of(config))
        code = measure_all([config, *DEFAULTS, "--output", folder, *others])
        if code == STOPPED:
            return code
        worst = max(worst, code)
        results[name_of(config)] = read_json(os.path.join(folder, "results.json"), {})
        print()
    print(table(results))
    return worst


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
