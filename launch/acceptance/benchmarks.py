"""Measures the goals of docs/benchmarks/gpu.md."""
import json
import os
import shutil

from commands import Failure, Skip
from training import steady_rate, summary, train

GIB = 2.0**30
SYNTHETIC = {"data.source": "synthetic", "data.train": "''", "data.test": "''", "data.shuffle": "false",
             "data.prefetch": 8, "eval.every_steps": 0, "eval.at_end": "false", "eval.stop_at_auc": 0,
             "checkpoint.at_end": "false", "output.metrics_every": 20}
CUT = {f"model.tables.{name}.rows": 20000000 for name in ("C1", "C10", "C20", "C21", "C22")}
SMALL_STEPS = {f"train.{part}_optimizer.lr": 1e-6 for part in ("dense", "sparse")}

# Tables of configs/dle_23b.yaml that do not fit 60 GiB with their Adagrad state. Each table has one lookup per
# sample, so the smallest tables gain most on the device. Rows of 128 columns.
LARGE = {"C1": 45833188, "C10": 29275261, "C20": 48937457, "C21": 11316796, "C22": 40094537}
ROW_BYTES = 128 * 4
DEVICE_PART = 60 * GIB

# If timing all kernels at once fails, these parts are timed separately (dlrm-bench kernels --only).
FAMILIES = ("copy", "lookup", "group", "update", "dot", "fm", "cross", "linear", "average pool", "dense", "convert", "fill")


def memory_available():
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def workers():
    return max(2, (os.cpu_count() or 4) - 4)


def time_kernels(session, name, *options):
    """The results of `dlrm-bench kernels`. It leaves no file if it failed."""
    out = os.path.join(session.scratch, name + ".json")
    if os.path.exists(out):
        os.remove(out)
    run = session.run(name, [session.program("dlrm-bench"), "kernels", "--device", "cuda", "--output", out, *options])
    run.expect_success(name)
    with open(out, encoding="utf-8") as file:
        return json.load(file)


def kernels(session):
    if session.emulated:
        sizes = ["--batch=24", "--tables=2", "--rows=50", "--hotness=3", "--width=8", "--features=5", "--matrix=16",
                 "--copied=4096", "--layer=16", "--crossed=40", "--parameters=1000", "--seconds=0",
                 "--only=lookup fp32, uniform"]
        session.facts["kernels"] = time_kernels(session, "kernels", *sizes)
        return
    try:
        session.facts["kernels"] = time_kernels(session, "kernels")
        yield from kernel_rows(session.facts["kernels"])
    except Failure as reason:
        yield from kernels_apart(session)
        raise Failure(f"all at once: {reason}") from None


def kernels_apart(session):
    whole = None
    for family in FAMILIES:
        try:
            part = time_kernels(session, f"kernels-{family.replace(' ', '-')}", "--only", family)
        except Failure as reason:
            yield (family, str(reason), "", False)
            continue
        known = {kernel["name"] for kernel in whole["kernels"]} if whole else set()
        whole = whole or {**part, "kernels": []}
        whole["kernels"] += [kernel for kernel in part["kernels"] if kernel["name"] not in known]
        session.facts["kernels"] = whole
    if whole:
        yield from kernel_rows(whole)


def kernel_rows(result):
    limits = result["limits"]
    rows = [("copy on the device", f"{limits['copy_gb_per_second']:.0f} GB/s, read and written", "", None),
            ("product in bf16", f"{limits['gflops_bf16'] / 1e3:.0f} TFLOP/s", "", None),
            ("product in fp32 or TF32", f"{limits['gflops_fp32'] / 1e3:.0f} TFLOP/s", "", None)]
    for kernel in result["kernels"]:
        goal = kernel.get("goal")
        rows.append((kernel["name"], f"{kernel['milliseconds']:.3f} ms, {100 * kernel['share']:.0f} % of the limit",
                     f"{100 * goal:.0f} %" if goal else "", kernel["share"] >= goal if goal else None))
    return rows + zipf_rows(result)


def zipf_rows(result):
    times = {kernel["name"]: kernel["milliseconds"] for kernel in result["kernels"]}
    try:
        ratio = times["update adagrad, zipf ids"] / times["update adagrad, uniform ids"]
    except KeyError:
        return []
    return [("update adagrad, Zipf over uniform ids", f"{ratio:.2f} times as long", "no slower", ratio <= 1.05)]


def without_ours():
    """PyTorch has its own libraries."""
    return {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}


def pytorch(session):
    if "kernels" not in session.facts:
        raise Skip("dlrm-bench kernels gave no figures")
    ours = os.path.join(session.scratch, "kernels-for-torch.json")
    with open(ours, "w", encoding="utf-8") as file:
        json.dump(session.facts["kernels"], file)
    out = os.path.join(session.scratch, "torch_kernels.json")
    for python in dict.fromkeys(filter(None, (shutil.which("python3"), "/usr/bin/python3"))):
        run = session.run("torch_kernels", [python, os.path.join(session.root, "data_tools/torch_kernels.py"), ours,
                                            "--output", out], env=without_ours())
        if run.code == 2:
            continue
        run.expect_success("torch_kernels.py")
        with open(out, encoding="utf-8") as file:
            session.facts["torch_kernels"] = json.load(file)
        times = {kernel["name"]: kernel["milliseconds"] for kernel in session.facts["kernels"]["kernels"]}
        return [(f"PyTorch, {row['name']}",
                 f"{row['milliseconds']:.3f} ms, {row['milliseconds'] / times[row['name']]:.2f} times ours", "", None)
                for row in session.facts["torch_kernels"]["kernels"]]
    raise Skip("PyTorch with a GPU is not installed")


def rate(session, name, config, values, batch, steps, goal=None, goal_ms=None):
    """Trains, and gives a row with the steady rate. If the time limit ended the run, its metrics give the rate."""
    values = {**SYNTHETIC, "data.workers": workers(), "train.global_batch_size": batch, "train.steps": steps,
              "data.synthetic.samples": batch * max(steps, 8), **values}
    run, folder = train(session, name, config, values, "cuda")
    if not run.timed_out:
        run.expect_success(name)
    per_second = steady_rate(folder)
    if per_second is None:
        if run.timed_out:
            run.expect_success(name)
        raise Failure(f"{name}: too few steps to tell a rate")
    milliseconds = 1e3 * batch / per_second
    done = {**summary(folder), "steady_samples_per_second": per_second, "steady_step_ms": milliseconds,
            "tables_on_host": tables_on_host(folder)}
    session.facts.setdefault("runs", {})[name] = done
    words = f"{per_second / 1e6:.2f}M samples/s, {milliseconds:.2f} ms a step"
    if "data_wait_share" in done:
        words += f", waits for data {100 * done['data_wait_share']:.0f} %"
    if run.timed_out:
        words += " (ended by its time limit)"
    if goal_ms:
        yield (name, words, f"<= {goal_ms:g} ms", milliseconds <= goal_ms)
    else:
        yield (name, words, f">= {goal / 1e6:g}M samples/s" if goal else "", per_second >= goal if goal else None)


def dcnv2(session, batch, law):
    values = {**CUT, "train.precision": "bf16", "data.synthetic.alpha": 1.05 if law == "zipf" else 0}
    steps = max(60, int(2.5e6 * 3 / batch))
    if law == "one-batch":
        return rate(session, f"dcnv2-{batch}-{law}", "mlperf_dcnv2.yaml", {**values, "data.source": "replay"}, batch, steps)
    return rate(session, f"dcnv2-{batch}-{law}", "mlperf_dcnv2.yaml", values, batch, steps, goal=2.12e6)


def dle_4b(session, source):
    values = {**SMALL_STEPS, "train.precision": "bf16", "data.synthetic.alpha": 1.05}
    if source == "one-batch":
        return rate(session, "dle-4b-one-batch", "dle_4b.yaml", {**values, "data.source": "replay"}, 65536, 300)
    return rate(session, "dle-4b-fresh", "dle_4b.yaml", values, 65536, 300, goal=10e6)


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
    cut = rows_cut_by(memory_available())
    if cut is None:
        raise Skip(f"{memory_available() / GIB:.0f} GiB of host memory are too little")
    adagrad = {f"train.{part}_optimizer": "{type: adagrad, lr: 1e-6, eps: 1e-8}" for part in ("dense", "sparse")}
    values = {**adagrad, "train.precision": "bf16", "data.synthetic.alpha": 0,
              "memory.device": f"{DEVICE_PART / GIB:g}GiB"}
    values.update({f"model.tables.{name}.rows": rows // cut for name, rows in LARGE.items()})
    batch = 65536
    name = "dle-23b-device-60GiB" + (f"-rows-by-{cut}" if cut > 1 else "")
    yield from rate(session, name, "dle_23b.yaml", values, batch, 150)
    names = session.facts["runs"][name]["tables_on_host"]
    link = {kernel["name"]: kernel["gb_per_second"] for kernel in session.facts.get("kernels", {}).get("kernels", [])}
    if "copy from host" not in link:
        return
    # Read: the row in forward, row and state in the update. Written: row and state. Both directions overlap.
    read, written = 3 * ROW_BYTES * batch * len(names), 2 * ROW_BYTES * batch * len(names)
    least = max(read / link["copy from host"], written / link["copy to host"]) * 1e-9
    share = least / (session.facts["runs"][name]["steady_step_ms"] / 1e3)
    yield ("host link, of its measured rate over the whole step",
           f"{100 * share:.0f} % ({read / 1e6:.0f} MB read, {written / 1e6:.0f} MB written a step)",
           "80 %", share >= 0.8)


def synthetic(session, size, goal_ms):
    values = {"train.tf32": "true"}
    config = f"synthetic/{size}.yaml"
    yield from rate(session, f"{size}-one-batch", config, {**values, "data.source": "replay"}, 65536, 200, goal_ms=goal_ms)
    yield from rate(session, f"{size}-fresh", config, values, 65536, 100)


def batch_sweep(session):
    """Seconds for 10,000 samples by batch size, on the CPU and on the GPU."""
    config, sizes = "single/device.yaml", ["--repeats", "3"]
    if session.emulated:
        config, sizes = "bench/gpu/parity.yaml", ["--batches", "8", "--samples", "16", "--repeats", "1"]
    times = {}
    for device in ("cpu", "cuda"):
        out = os.path.join(session.scratch, f"batch-sweep-{device}.json")
        run = session.run(f"batch-sweep-{device}", [session.program("dlrm-bench"), "batch-sweep", session.config(config),
                                                    "--device", device, *sizes, "--output", out])
        run.expect_success(f"dlrm-bench batch-sweep, {device}")
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        session.facts.setdefault("batch_sweep", {})[device] = result
        times[device] = {point["batch"]: point["seconds"]["mean"] for point in result["points"]}
    for batch, seconds in times["cuda"].items():
        words = f"{seconds:.2f} s on the GPU, {times['cpu'][batch]:.2f} s on the CPU"
        yield (f"batch {batch}", "it ran" if session.emulated else words, "", None)


def tiny_run(session):
    values = {"output.metrics_every": 1, "model.embedding_dim": 16, "model.bottom_mlp": "[16]", "model.top_mlp": "[8, 1]"}
    for row in rate(session, "tiny-run", "bench/gpu/parity.yaml", values, 16, 6):
        yield row[:1] + ("it ran; times of the emulator are no figures", "", None)


def add(session):
    session.step("benchmark", "kernels", "kernels", 90, kernels)
    if session.emulated:
        session.step("benchmark", "batch-sweep", "by batch size", 30, batch_sweep)
    if session.emulated:
        session.step("benchmark", "tiny-run", "a training run", 60, tiny_run)
        return
    session.step("benchmark", "dle-4b-fresh", "DLE 4.2B", 40, lambda s: dle_4b(s, "fresh"))
    if session.quick:
        return
    for law in ("uniform", "zipf", "one-batch"):
        session.step("benchmark", f"dcnv2-55296-{law}", f"MLPerf DLRM-DCNv2, batch 55,296, {law}", 60,
                     lambda s, l=law: dcnv2(s, 55296, l))
    session.step("benchmark", "tiny", "DE Tiny", 40, lambda s: synthetic(s, "tiny", 2))
    session.step("benchmark", "small", "DE Small", 60, lambda s: synthetic(s, "small", 9))
    session.step("benchmark", "dle-23b", "DLE 22.8B, device and host", 120, dle_23b)
    for law in ("uniform", "zipf"):
        session.step("benchmark", f"dcnv2-6912-{law}", f"MLPerf DLRM-DCNv2, batch 6,912, {law}", 60,
                     lambda s, l=law: dcnv2(s, 6912, l))
    session.step("benchmark", "batch-sweep", "10,000 samples of a small model, by batch size", 90, batch_sweep)
    session.step("benchmark", "dle-4b-one-batch", "DLE 4.2B, one batch", 40, lambda s: dle_4b(s, "one-batch"))
    session.step("benchmark", "pytorch", "PyTorch's kernels", 60, pytorch)
