"""Where a DCNv2 step spends its time: stages, the library's algorithms, every launch, and what the heaviest kernels wait for."""
import collections
import csv
import glob
import os
import re
import shutil

from benchmarks import DCNV2_BATCH, dcnv2_values, train_one_batch
from commands import Failure, Skip
from kernels import Lines
from training import summary

# Rows of dlrm-bench kernels, and the kernel that does their work. Tables are small: ncu saves and restores what a kernel
# writes before each of its passes.
HEAVIEST = (("lookup bf16, uniform ids", "pool_bags_kernel"), ("update adagrad, uniform ids", "update_runs_kernel"),
            ("update adagrad, zipf ids", "update_runs_kernel"), ("dot bf16 forward", "dot_forward_mma_kernel"),
            ("dot bf16 backward", "dot_backward_mma_kernel"), ("copy blocks", "copy_rectangles_kernel"))
SMALL = ("--batch", "16384", "--rows", "200000", "--copied", "400000000", "--matrix", "1024", "--variants", "false",
         "--seconds", "0")
TIME, READ, WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
OCCUPANCY, L2_HITS = "sm__warps_active.avg.pct_of_peak_sustained_active", "lts__t_sector_hit_rate.pct"
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
ONCE_A_STEP = "bce_kernel"
SHOWN = 16  # kernels and products that get a row; the facts have all


def dcnv2_steps(session, name, steps, values=None, **options):
    return train_one_batch(session, name, "mlperf_dcnv2.yaml", {**dcnv2_values(session, "uniform"), **(values or {})}, DCNV2_BATCH,
                           steps, **options)


def stages(session):
    """Steps are not launched as graphs here, and a stage ends when the GPU has done it."""
    run, folder = dcnv2_steps(session, "stages", 40, options=("--profile", session.path("stages-trace.json")))
    run.expect_success("dlrm-train --profile")
    times = summary(folder).get("stages_ms", {})
    if not times:
        raise Failure("summary.json has no stages")
    session.facts["stages_ms"] = times
    for name, milliseconds in sorted(times.items(), key=lambda item: -item[1]):
        yield name, "it ran" if session.emulated else f"{milliseconds:.3f} ms a step", "", None


def products(session):
    if session.emulated:
        raise Skip("cuBLASLt does not run in the emulator")
    log = session.path("cublaslt.log")
    run, _ = dcnv2_steps(session, "products", 3, env={"CUBLASLT_LOG_LEVEL": "5", "CUBLASLT_LOG_FILE": log})
    run.expect_success("dlrm-train")
    with open(log, encoding="utf-8", errors="replace") as file:
        chosen, refused = read_library_log(file)
    session.facts["products"] = [{"product": product, "algorithm": algorithm} for product, algorithm in chosen.items()]
    session.facts["products_refused"] = refused
    for product, count in refused.items():
        yield f"refused: {product}", f"{count} times", "", None
    for product, algorithm in list(chosen.items())[:SHOWN]:
        yield product, algorithm, "", None


def read_library_log(lines):
    """({product: the algorithm that ran last}, {product: times refused}) of cuBLASLt's log of level 5."""
    chosen, refused, asked = {}, collections.Counter(), "a product"
    for line in lines:
        found = re.match(r"(?:\[[^]]*\])*\[(Api|Trace|Error|Info)\]\[(cublasLt\w+)\]", line)
        if not found:
            continue
        level, function = found.groups()
        if level == "Trace" and function.endswith("Matmul"):
            algorithm = re.search(r"algo=\[([^]]*)\]", line)
            chosen[product_of(line)] = algorithm.group(1) if algorithm else "no algorithm named"
        elif level == "Api" and "AlgoGetHeuristic" in function:
            asked = product_of(line)
        elif level == "Error" and "AlgoGetHeuristic" in function:
            refused[asked] += 1
    return chosen, dict(refused)


def product_of(line):
    """The library's matrices are ours transposed."""
    shapes = {name: (kind.replace("R_", "").lower(), rows, columns) for name, kind, rows, columns in
              re.findall(r"\b([ABCD])desc=\[type=(\w+) rows=(\d+) cols=(\d+)", line)}
    epilogue = re.search(r"epilogue=(?:EPILOGUE_)?(\w+)", line)
    words = [f"{name} {rows} x {columns} {kind}" for name, (kind, rows, columns) in sorted(shapes.items()) if name != "C"]
    words += re.findall(r"\b(trans[ab]=OP_T)", line)
    return ", ".join(words + [epilogue.group(1) if epilogue else "DEFAULT"])


def ncu(session):
    places = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"))[::-1]]
    program = next((place for place in places if place and os.access(place, os.X_OK)), None)
    if session.emulated:
        raise Skip("an emulator has no counters")
    if not program:
        raise Skip("ncu is not installed")
    # The clocks of a GPU that others share stay as they are.
    return [program, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]


def profiled(path):
    """The kernels in a CSV that ncu wrote, as dictionaries. Its second row has units."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = list(csv.DictReader(line for line in file if line.startswith('"')))
    except OSError:
        rows = []
    return [row for row in rows if row.get("ID")]


def number(text):
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return float("nan")


def launches(session):
    """From one kernel that runs once in a step to the next is a whole step. Products take the library's first algorithm,
    because choosing by time would measure ncu."""
    out = session.path("launches.csv")
    # Kernels find in caches what those before them left there, as in a step.
    wrapper = [*ncu(session), "--cache-control", "none", "--metrics", TIME, "--print-kernel-base", "demangled", "--log-file", out]
    run, _ = dcnv2_steps(session, "launches", 3, {"train.pin_algorithms": "true"}, wrapper=wrapper,
                         options=("--profile", session.path("launches-trace.json")))
    run.expect_success("ncu dlrm-train")
    step = last_step([(row["Kernel Name"], number(row[TIME]) * 1e-6) for row in profiled(out)])
    session.facts["launches"] = [{"kernel": name, "ms": milliseconds} for name, milliseconds in step]
    yield "all kernels of a step", f"{sum(ms for _, ms in step):.3f} ms in {len(step)} launches", "", None
    total, count = collections.Counter(), collections.Counter()
    for name, milliseconds in step:
        total[name] += milliseconds
        count[name] += 1
    for name, milliseconds in total.most_common(SHOWN):
        yield name[:160], f"{milliseconds:.3f} ms in {count[name]} launches", "", None


def last_step(kernels):
    ends = [i for i, (name, _) in enumerate(kernels) if ONCE_A_STEP in name]
    if len(ends) < 2:
        raise Failure(f"{len(kernels)} kernels, {len(ends)} of them {ONCE_A_STEP}: no whole step")
    return kernels[ends[-2] + 1:ends[-1] + 1]


def counters(session):
    program = [*ncu(session), "--section", "WarpStateStats", "--metrics", ",".join((TIME, READ, WRITTEN, OCCUPANCY, L2_HITS)),
               "--print-kernel-base", "function", "--launch-skip", "1", "--launch-count", "1"]
    failed = []
    for row, kernel in HEAVIEST:
        name = "counters-" + re.sub(r"\W+", "-", row)
        out, figures = session.path(name + ".csv"), session.path(name + ".jsonl")
        run = session.run(name, [*program, "--kernel-name", f"regex:^{kernel}$", "--log-file", out,
                                 session.program("dlrm-bench"), "kernels", "--device", "cuda", "--only", row, *SMALL,
                                 "--output", figures], limit=15)
        found, counted = profiled(out), [line for line in Lines(figures).new() if line.get("name") == row]
        if not found or not counted:
            failed.append(row)
            session.add(row, f"no counters: exit code {run.code}: {run.last_line()}", "", False)
            continue
        session.facts.setdefault("counters", {})[row] = {**found[0], "counted_bytes": counted[0]["bytes"]}
        yield row, counter_words(found[0], counted[0]["bytes"]), "", None
    if failed:
        raise Failure("no counters of " + "; ".join(failed))


def counter_words(kernel, counted):
    stalls = sorted(((number(value), STALL.fullmatch(key).group(1)) for key, value in kernel.items() if STALL.fullmatch(key)),
                    reverse=True)[:2]
    read, written = number(kernel.get(READ)), number(kernel.get(WRITTEN))
    return (f"{number(kernel.get(TIME)) * 1e-6:.4f} ms, {read / 1e6:.1f} MB read and {written / 1e6:.1f} MB written, "
            f"{(read + written) / counted:.2f} times the {counted / 1e6:.1f} MB of the model, occupancy "
            f"{number(kernel.get(OCCUPANCY)):.0f} %, L2 hits {number(kernel.get(L2_HITS)):.0f} %, stalls: "
            + ", ".join(f"{name} {cycles:.1f}" for cycles, name in stalls))
