"""What dlrm-sweep does: which trials, in which order."""
from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import re
import shutil
import signal
import sys
from typing import Sequence

from .. import figures
from ..endings import Parser, Refused, exit_code, program
from ..runs import compare
from .trials import STOPPED, Local, Slurm, Trial, locked_folder, read_json, write

MOST_TRIALS = 10000
OWN_KEYS = ("output.directory", "checkpoint.directory")
OWN_OPTIONS = ("--resume", "--overwrite", "--eval-only", "--predict", "--plan-only")


def parse(words):
    parser = Parser(
        prog="dlrm-sweep", description="Trains a config with many settings, each in a directory of its own. "
        "The same command continues after an interruption.", epilog="Words after -- go to dlrm-train.", allow_abbrev=False)
    parser.add_argument("config", metavar="CONFIG")
    parser.add_argument("--grid", action="append", required=True, metavar="KEY=V1,V2...",
                        help="values of a key of the config; several --grid give every combination")
    parser.add_argument("--random", type=positive, metavar="N", help="only N combinations, drawn with --seed")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--jobs", type=positive, default=1, metavar="J", help="trials at the same time (default: 1)")
    parser.add_argument("--ranks", type=positive, default=1, metavar="N", help="ranks of a trial (default: 1)")
    parser.add_argument("--halving", action="store_true",
                        help="give all trials few steps, and the better half twice as many, until one has had --steps")
    parser.add_argument("--steps", type=positive, metavar="N", help="steps of a whole trial (with --halving)")
    parser.add_argument("--metric", choices=("auc", "log_loss"), default="auc", help="what is better (default: auc)")
    parser.add_argument("--output", metavar="FOLDER", help="default: sweeps/NAME of the config")
    parser.add_argument("--figure", metavar="OUT.svg", help="curves of all trials (needs matplotlib)")
    parser.add_argument("--slurm", action="store_true", help="run trials as a job array (launch/slurm/sweep.sbatch)")
    parser.add_argument("--sbatch", action="append", default=[], metavar="OPTION",
                        help="with --slurm: an option of sbatch, as --sbatch=--time=60; repeatable")
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.extra = words[end + 1:]
    if options.halving != (options.steps is not None):
        parser.error("--halving and --steps N go together: N is the steps of a whole trial")
    if options.sbatch and not options.slurm:
        parser.error("--sbatch goes with --slurm")
    for word in options.extra:
        if word.split("=")[0] in OWN_OPTIONS:
            parser.error(f"{word} cannot be given to trials")
    options.output = options.output or os.path.join("sweeps", os.path.splitext(os.path.basename(options.config))[0])
    return options


def positive(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: not a whole number from 1")
    return int(text)


def read_grid(words: list[str], halving: bool) -> dict[str, list[str]]:
    """The values of each key."""
    grid = {}
    for word in words:
        key, sign, text = word.partition("=")
        values = split_values(text)
        if not sign or not key or not all(values):
            raise Refused(f"--grid {word}: expected KEY=V1,V2,..., for example train.sparse_optimizer.lr=0.01,0.02")
        if len(set(values)) < len(values):
            raise Refused(f"--grid {word}: a value is given twice")
        if key in grid:
            raise Refused(f"--grid {word}: {key} is given twice")
        if key in OWN_KEYS or halving and key in ("train.steps", "train.epochs"):
            raise Refused(f"--grid {word}: the sweep sets {key} itself")
        grid[key] = values
    return grid


def split_values(text: str) -> list[str]:
    """Cuts at commas that are not inside of [], {} or quotes."""
    values, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0 and not quote:
            values.append("")
        else:
            values[-1] += letter
    return [value.strip() for value in values]


def combinations(grid: dict[str, list[str]], count: int | None, seed: int) -> list[list[str]]:
    """The settings of each trial, or of `count` of them drawn at random, in the grid's order."""
    total = math.prod(len(values) for values in grid.values())
    numbers: Sequence[int] = range(total)
    if count is not None and count < total:
        numbers = sorted(random.Random(seed).sample(numbers, count))
    if len(numbers) > MOST_TRIALS:
        raise Refused(f"{len(numbers)} trials are more than {MOST_TRIALS}: draw some with --random N")
    result = []
    for number in numbers:
        settings = []
        for key, values in reversed(grid.items()):
            number, at = divmod(number, len(values))
            settings.append(f"{key}={values[at]}")
        result.append(settings[::-1])
    return result


def rung(runner, trials, steps, stop):
    """Runs the trials that have no result for `steps` yet, and returns those that have one."""
    for trial in trials:
        if trial.result(steps) is None and trial.code() == 0:
            trial.prepare(runner.options, steps)  # drops the code if it is another rung's
            trial.collect(steps)  # the sweep was killed before it took the results
    missing = [trial for trial in trials if trial.result(steps) is None]
    if missing and not stop:
        runner.run(missing, steps, stop)
    return [trial for trial in trials if trial.result(steps) is not None]


def halve(options, runner, trials, stop):
    """Successive halving: of n trials, the better n/2 get twice the steps. Returns all, the best first."""
    count = len(trials)
    left, ranking = trials, []
    for level in range((count - 1).bit_length(), -1, -1):
        steps = max(1, options.steps >> level)
        done = rung(runner, left, steps, stop)
        if stop or not done:
            return left + ranking
        for trial in done:
            if trial.result(steps).get(options.metric) is None:
                raise Refused(f"{trial.folder}: there is no {options.metric} to compare: --halving needs data.valid or data.test, "
                              "with samples of both classes")
        ordered = best_first(done, steps, options.metric)
        kept = ordered[:-(-len(left) // 2)] if level else ordered
        dropped = ordered[len(kept):] + [trial for trial in left if trial not in done]
        for trial in dropped:  # a later rung never needs them
            shutil.rmtree(trial.path("ckpt"), ignore_errors=True)
        left, ranking = kept, dropped + ranking
        if level:
            print(f"{steps} steps: {len(kept)} of {len(kept) + len(dropped)} go on", flush=True)
    return left + ranking


def best_first(trials, steps, metric):
    def key(trial):
        value = trial.result(steps).get(metric)
        return (value is None, 0 if value is None else -value if metric == "auc" else value)
    return sorted(trials, key=key)


def report(options, trials, stopped):
    failed = [trial for trial in trials if trial.error]
    finished = [trial for trial in trials if trial.results and not trial.error]
    print(f"\n{len(trials)} trials in {options.output}: {len(finished)} with results, {len(failed)} failed, "
          f"{len(trials) - len(finished) - len(failed)} not finished", flush=True)
    shown = [trial.folder for trial in finished if os.path.exists(trial.path("metrics.jsonl"))]
    if shown:
        exit_code(lambda: compare.run([*shown, *(["--figure", options.figure] if options.figure else [])]))
    for trial in failed:
        print(f"{trial.folder} failed: {trial.error}", file=sys.stderr)
    return STOPPED if stopped else 3 if len(finished) < len(trials) else 0


def open_sweep(options):
    """The trials of the sweep's folder, which holds trials of this config alone."""
    if not os.path.isfile(options.config):
        raise Refused(f"{options.config}: there is no such file")
    with open(options.config, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    wanted = {"config": digest, "options": options.extra, "steps": options.steps}
    found = combinations(read_grid(options.grid, options.halving), options.random, options.seed)
    lock = locked_folder(options.output, "sweep")
    path = os.path.join(options.output, "sweep.json")
    sweep = read_json(path, {**wanted, "trials": []})
    differing = [name for name in wanted if sweep.get(name) != wanted[name]]
    if differing:
        raise Refused(f"--output {options.output}: holds a sweep with other {' and '.join(differing)}: name another folder")
    known = sweep["trials"]
    if options.halving and known not in ([], found):
        raise Refused(f"--output {options.output}: holds a sweep with another grid, and --halving compares "
                      "trials of one grid: name another folder")
    known += [settings for settings in found if settings not in known]
    write(path, json.dumps({**sweep, "trials": known}, indent=1) + "\n")
    return lock, [Trial(options.output, known.index(settings), settings) for settings in found]


def run(words: list[str]) -> int:
    stop = []  # a request to stop is its first item
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.append(True))
    options = parse(words)
    if options.figure:
        figures.pyplot()  # missing packages are missed before anything runs
    runner: Local | Slurm = Slurm(options) if options.slurm else Local(options)
    lock, trials = open_sweep(options)
    with lock:
        if not trials[0].results:
            runner.check(trials[0].words(options, None))
        if options.halving:
            trials = halve(options, runner, trials, stop)
        else:
            trials = best_first(rung(runner, trials, None, stop), None, options.metric) + \
                [trial for trial in trials if trial.result(None) is None]
        return report(options, trials, bool(stop))


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
