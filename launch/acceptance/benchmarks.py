"""Measures the goals of docs/benchmarks/gpu.md."""
import json
import os

from commands import Failure, Skip
from kernels import figures, time_kernels
from start import GIB, card_gib
from training import steady_rate, summary, train

# The first batch in every step, so that no step waits for data.
ONE_BATCH = {"data.source": "replay", "data.train": "''", "data.test": "''", "data.shuffle": "false", "data.prefetch": 8,
             "eval.every_steps": 0, "eval.at_end": "false", "eval.stop_at_auc": 0, "checkpoint.at_end": "false",
             "output.metrics_every": 20}
SMALL_STEPS = {f"train.{part}_optimizer.lr": 1e-6 for part in ("dense", "sparse")}
# What an emulator trains in seconds instead, with the same settings of data and training.
TINY = {"model.embedding_dim": 16, "model.bottom_mlp": "[16]", "model.top_mlp": "[8, 1]", "output.metrics_every": 1,
        "train.global_batch_size": 16, "train.steps": 6, "data.synthetic.samples": 128}

DCNV2_BATCH = 55296
DCNV2_LARGE = ("C1", "C10", "C20", "C21", "C22")

# Tables of configs/dle_23b.yaml that do not fit 60 GiB with their Adagrad state. Each table has one lookup per
# sample, so the smallest tables gain most on the device. Rows of 128 columns.
LARGE = {"C1": 45833188, "C10": 29275261, "C20": 48937457, "C21": 11316796, "C22": 40094537}
ROW_BYTES = 128 * 4
DEVICE_PART = 60 * GIB


def memory_available():
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def workers():
    return max(2, (os.cpu_count() or 4) - 4)


def train_one_batch(session, name, config, values, batch, steps, device="cuda", **options):
    """Trains on one batch. In the emulator a small model stands in."""
    values = {**ONE_BATCH, "data.workers": workers(), "train.global_batch_size": batch, "train.steps": steps,
              "data.synthetic.samples": batch * 8, **values}
    if session.emulated:
        kept = {key: value for key, value in values.items() if not key.startswith(("model.", "memory."))}
        config, values = "bench/gpu/parity.yaml", {**kept, **TINY}
    return train(session, name, config, values, device, **options)


def rate(session, name, config, values, batch, steps, goal=None, goal_ms=None, note="", **options):
    """Trains, and gives a row with the steady rate. If the time limit ended the run, its metrics give the rate."""
    run, folder = train_one_batch(session, name, config, values, batch, steps, **options)
    if not run.timed_out:
        run.expect_success(name)
    per_second = steady_rate(folder)
    if per_second is None:
        if run.timed_out:
            run.expect_success(name)
        raise Failure(f"{name}: too few steps to tell a rate")
    milliseconds = 1e3 * batch / per_second
    on_host = tables_on_host(folder)
    session.facts.setdefault("runs", {})[name] = {**summary(folder), "steady_samples_per_second": per_second,
                                                  "steady_step_ms": milliseconds, "tables_on_host": on_host}
    if session.emulated:
        yield name, "it ran; times of the emulator are no figures", "", None
        return
    words = f"{per_second / 1e6:.3f}M samples/s, {milliseconds:.2f} ms a step"
    words += f", {note}" if note else ""
    words += f", tables on the host: {', '.join(on_host)}" if on_host else ""
    words += ", ended by its time limit" if run.timed_out else ""
    if goal_ms:
        yield name, words, f"<= {goal_ms:g} ms", milliseconds <= goal_ms
    else:
        yield name, words, f">= {goal / 1e6:g}M samples/s" if goal else "", per_second >= goal if goal else None


def dcnv2_rows(session):
    """Rows of each of DCNv2's large tables: as many as the card has room for."""
    return 20000000 if card_gib(session) >= 130 else 12000000


def dcnv2_values(session, law, rows=None):
    rows = rows or dcnv2_rows(session)
    return {**{f"model.tables.{name}.rows": rows for name in DCNV2_LARGE}, "train.precision": "bf16",
            "data.synthetic.alpha": 1.05 if law == "zipf" else 0}


def dcnv2(session, law):
    """The goal is for an H200, the card with room for the larger tables."""
    rows = dcnv2_rows(session)
    card = session.facts.get("card", {}).get("name", "no card")
    yield from rate(session, f"dcnv2-{law}", "mlperf_dcnv2.yaml", dcnv2_values(session, law), DCNV2_BATCH, 140,
                    goal=2.12e6 if rows == 20000000 else None, note=f"5 tables of {rows / 1e6:g}M rows on {card}")


def dle_4b(session):
    values = {**SMALL_STEPS, "train.precision": "bf16", "data.synthetic.alpha": 1.05}
    return rate(session, "dle-4b", "dle_4b.yaml", values, 65536, 300, goal=10e6)


def synthetic(session, size, goal_ms):
    return rate(session, size, f"synthetic/{size}.yaml", {"train.tf32": "true"}, 65536, 200, goal_ms=goal_ms)


def tables_on_host(folder):
    """Tables with rows in host memory, by the plan that a run used."""
    try:
        with open(os.path.join(folder, "plan.json"), encoding="utf-8") as text:
            plan = json.load(text)
    except (OSError, ValueError):
        return []
    return sorted({shard["table"] for shard in plan["shards"] if shard.get("tier") == "host"}
                  | set(plan.get("data_parallel_host", [])))


def rows_cut_by(available):
    """The divisor of the rows of DLE's 22.8B model for which the part beyond 60 GiB of the device fits the host,
    Adagrad's state included: 1, 2, or None."""
    for cut in (1, 2):
        table_bytes = [rows // cut * 2 * ROW_BYTES for rows in LARGE.values()]
        # Tables are placed whole, so almost the size of the largest one may remain unused on the device.
        if sum(table_bytes) - DEVICE_PART + max(table_bytes) + 8 * GIB <= available:
            return cut
    return None


def dle_23b(session):
    cut = 1 if session.emulated else rows_cut_by(memory_available())
    if cut is None:
        raise Skip(f"{memory_available() / GIB:.0f} GiB of host memory are too little")
    if not session.emulated:
        time_kernels(session, "link", "--only", " host", limit=20)
    adagrad = {f"train.{part}_optimizer": "{type: adagrad, lr: 1e-6, eps: 1e-8}" for part in ("dense", "sparse")}
    values = {**adagrad, "train.precision": "bf16", "data.synthetic.alpha": 0,
              "memory.device": f"{DEVICE_PART / GIB:g}GiB"}
    values.update({f"model.tables.{name}.rows": rows // cut for name, rows in LARGE.items()})
    batch = 65536
    name = "dle-23b-device-60GiB" + (f"-rows-by-{cut}" if cut > 1 else "")
    yield from rate(session, name, "dle_23b.yaml", values, batch, 150)
    names = session.facts["runs"][name]["tables_on_host"]
    link = {kernel["name"]: kernel["gb_per_second"] for kernel in figures(session)["kernels"]}
    if "copy from host" not in link or "copy to host" not in link:
        return
    # Read: the row in forward, row and state in the update. Written: row and state. Both directions overlap.
    read, written = 3 * ROW_BYTES * batch * len(names), 2 * ROW_BYTES * batch * len(names)
    least = max(read / link["copy from host"], written / link["copy to host"]) * 1e-9
    share = least / (session.facts["runs"][name]["steady_step_ms"] / 1e3)
    yield ("host link, of its measured rate over the whole step",
           f"{100 * share:.0f} % ({read / 1e6:.0f} MB read, {written / 1e6:.0f} MB written a step)",
           "80 %", share >= 0.8)
