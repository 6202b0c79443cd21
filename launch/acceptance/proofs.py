"""What must be true on a GPU before any figure counts."""
import os
import re
import shutil

from steps import Failure, Skip
from training import losses, train

PARITY = "bench/gpu/parity.yaml"


def optimizers(text):
    return {f"train.{part}_optimizer": text for part in ("dense", "sparse")}


ADAGRAD = optimizers("{type: adagrad, lr: 0.01, initial_accumulator: 0.1, eps: 1e-6}")
# Cross layers of a small rank multiply a change: steps small enough for the run to be a stable one.
SMALL_ADAGRAD = optimizers("{type: adagrad, lr: 0.001, initial_accumulator: 0.1, eps: 1e-6}")
SMALL_SGD = optimizers("{type: sgd, lr: 0.001}")
CROSS = {"model.interaction": "{type: cross, layers: 2, rank: 6}"}
CONCAT = {"model.interaction": "{type: concat, average_pool: 4}"}
BF16 = {"train.precision": "bf16"}

# name, settings, the largest relative difference of a step's loss to the CPU's. In bf16 the two round at
# different places, which cross layers multiply; TF32 keeps 10 bits of a factor.
CASES = [
    ("dot-sgd-fp32", {}, 1e-5),
    ("dot-adagrad-fp32", ADAGRAD, 1e-5),
    ("concat-adagrad-fp32", {**CONCAT, **ADAGRAD}, 1e-5),
    ("cross-sgd-fp32", {**CROSS, **SMALL_SGD}, 1e-5),
    ("cross-adagrad-bf16", {**CROSS, **SMALL_ADAGRAD, **BF16}, 3e-2),
    ("dot-sgd-bf16", BF16, 2e-2),
    ("concat-sgd-bf16", {**CONCAT, **BF16}, 2e-2),
    ("dot-sgd-tf32", {"train.tf32": "true"}, 2e-3),
]


def suite(session, name, gtest_filter):
    program = session.program(name)
    run = session.run(name, [program, f"--gtest_filter={gtest_filter}", "--gtest_brief=1"])
    text = run.text()
    counts = re.findall(r"\[  PASSED  \] (\d+) test", text)
    broken = re.findall(r"\[  FAILED  \] ([^\s,]+),? ", text)
    if broken:
        raise Failure(f"{len(set(broken))} failed: {', '.join(sorted(set(broken))[:4])}")
    run.expect_success(name)
    if not counts or counts[-1] == "0":
        raise Failure(f"{name}: no test of devices was run; is this a build with CUDA?")
    return [("tests", f"{counts[-1]} passed", "all", True)]


def shorten(session, values):
    return {**values, "train.steps": 6, "train.global_batch_size": 19} if session.emulated else values


def compare(name, mine, theirs, tolerance):
    if len(mine) != len(theirs) or not mine:
        raise Failure(f"{name}: {len(mine)} losses, the CPU gave {len(theirs)}")
    worst = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(mine, theirs))
    if not worst <= tolerance:
        raise Failure(f"{name}: losses differ by {worst:.2g}, allowed {tolerance:g}")
    goal = "the same bits" if tolerance == 0 else f"within {tolerance:g}"
    return (f"{name}: loss over {len(mine)} steps", f"differs by {worst:.1e}", goal, True)


def reference_losses(session, name, values):
    run, folder = train(session, f"{name}-on-cpu", PARITY, values, "cpu")
    run.expect_success(f"{name} on the CPU")
    return losses(folder)


def device_losses(session, name, values, **options):
    run, folder = train(session, name, PARITY, values, "cuda", **options)
    run.expect_success(name)
    return losses(folder)


def against_cpu(session, name, values, tolerance):
    values = shorten(session, values)
    expected = reference_losses(session, name, values)
    return [compare(name, device_losses(session, name, values), expected, tolerance)]


def host_tier(session):
    values = shorten(session, ADAGRAD)
    expected = device_losses(session, "all-on-device", values)
    some = device_losses(session, "user-on-host", {**values, "memory.tables": "{user: host}"})
    every = device_losses(session, "all-on-host", {**values, "memory.tier": "host"})
    return [compare("one table in host memory, against none", some, expected, 0),
            compare("all tables in host memory, against none", every, expected, 0)]


def shared_gpu(session, ranks):
    values = shorten(session, ADAGRAD)
    expected = reference_losses(session, f"{ranks}-staged", values)
    rows = []
    for strategy in ("table", "row", "data_parallel") if ranks == 2 else ("auto", "grid"):
        name = f"{ranks}-staged-{strategy}"
        mine = device_losses(session, name, {**values, "comm": "staged", "sharding.strategy": strategy}, ranks=ranks)
        rows.append(compare(name, mine, expected, 1e-5))
    return rows


def nccl_alone(session):
    values = shorten(session, ADAGRAD)
    expected = reference_losses(session, "nccl-1", values)
    return [compare("nccl-1", device_losses(session, "nccl-1", {**values, "comm": "nccl"}), expected, 1e-5)]


def nccl_two_ranks(session):
    """NCCL refuses two ranks on one GPU of one machine; with a host's name each it takes them for two."""
    if session.emulated:
        raise Skip("the emulator's NCCL joins threads of one process alone")
    values = {**ADAGRAD, "comm": "nccl", "train.timeout": 40}
    expected = reference_losses(session, "nccl-2", ADAGRAD)
    own_name = ("bash", "-c", 'NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK exec "$0" "$@"')
    env = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}
    rows = []
    for strategy in ("table", "row"):
        name = f"nccl-2-{strategy}"
        mine = device_losses(session, name, {**values, "sharding.strategy": strategy}, ranks=2, env=env,
                             wrapper=own_name)
        rows.append(compare(name, mine, expected, 1e-5))
    return rows


def sanitizer(session):
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if session.emulated:
        raise Skip("no CUDA runs here; the preset simt-asan looks for the same")
    if not os.access(program, os.X_OK):
        raise Skip("compute-sanitizer is not installed")
    rows = []
    for tool in ("memcheck", "racecheck"):
        wrapper = (program, "--tool", tool, "--error-exitcode", "9")
        run, _ = train(session, f"sanitizer-{tool}", PARITY, {**ADAGRAD, "train.steps": 4}, "cuda", wrapper=wrapper)
        if "Device not supported" in run.text():
            raise Skip("compute-sanitizer does not work on this machine: Device not supported")
        run.expect_success(tool)
        rows.append((tool, "0 errors", "0 errors", True))
    return rows


def add(session):
    tiny = session.emulated
    session.step("proof", "operations", 150,
                 lambda s: suite(s, "ops_test", "*EmbeddingBits*cuda*:*GpuStep*cuda*" if tiny else "*cuda*"))
    session.step("proof", "devices", 40, lambda s: suite(s, "device_test", "*Sort*:*Matmul*" if tiny else "*"))
    session.step("proof", "communicators", 60, lambda s: suite(
        s, "comm_test", "*StagedComm*Cuda2" if tiny else "*Cuda*:*Nccl*:*Staged*:*DeviceComm*"))
    if not tiny:
        session.step("proof", "training", 60, lambda s: suite(s, "train_test", "*OnADevice*"))
    for name, values, tolerance in CASES:
        session.step("proof", f"losses of the CPU, {name}", 30,
                     lambda s, n=name, v=values, t=tolerance: against_cpu(s, n, v, t))
    session.step("proof", "rows in host memory", 30, host_tier)
    session.step("proof", "2 ranks share the GPU", 60, lambda s: shared_gpu(s, 2))
    if not tiny:
        session.step("proof", "4 ranks share the GPU", 60, lambda s: shared_gpu(s, 4))
    session.step("proof", "NCCL, 1 rank", 30, nccl_alone)
    session.step("proof", "NCCL, 2 ranks on one GPU", 60, nccl_two_ranks)
    if not session.quick:
        session.step("proof", "compute-sanitizer", 60, sanitizer)
