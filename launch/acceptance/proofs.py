"""Tests that must pass on a GPU before any figure counts."""
import os
import shutil

from commands import Failure, Skip
from suites import suite
from training import losses, train

PARITY = "bench/gpu/parity.yaml"


def optimizers(text):
    return {f"train.{part}_optimizer": text for part in ("dense", "sparse")}


ADAGRAD = optimizers("{type: adagrad, lr: 0.01, initial_accumulator: 0.1, eps: 1e-6}")
# Cross layers of a small rank amplify changes. These steps are small enough for a stable run.
SMALL_ADAGRAD = optimizers("{type: adagrad, lr: 0.001, initial_accumulator: 0.1, eps: 1e-6}")
SMALL_SGD = optimizers("{type: sgd, lr: 0.001}")
CROSS = {"model.interaction": "{type: cross, layers: 2, rank: 6}"}
CONCAT = {"model.interaction": "{type: concat, average_pool: 4}"}
FM = {"model.interaction": "fm"}
BF16 = {"train.precision": "bf16"}

# name, settings, the largest relative difference of a step's loss from the CPU's. TF32 keeps 10 bits of a factor;
# the limit is four times its rounding of 2^-11.
CASES = [
    ("dot-sgd-fp32", {}, 1e-5),
    ("dot-adagrad-fp32", ADAGRAD, 1e-5),
    ("concat-adagrad-fp32", {**CONCAT, **ADAGRAD}, 1e-5),
    ("cross-sgd-fp32", {**CROSS, **SMALL_SGD}, 1e-5),
    ("fm-adagrad-fp32", {**FM, **SMALL_ADAGRAD}, 1e-5),
    ("dot-sgd-tf32", {"train.tf32": "true"}, 2e-3),
]
BF16_CASES = [
    ("cross-adagrad-bf16", {**CROSS, **SMALL_ADAGRAD}),
    ("dot-sgd-bf16", {}),
    ("concat-sgd-bf16", CONCAT),
]
# A rounding to bf16 is off by up to 2^-9, which bounds the first loss, a mean over samples. Later steps use different
# weights: two correct programs drift apart, each as far as it drifts from fp32 (some 4e-3 a step here, either of them; up
# to 2e-2 in one step). On average the GPU's losses may be twice as far from fp32 as the CPU's are.
BF16_FIRST = 2.0**-9
BF16_TIMES = 2


def shorten(session, values):
    return {**values, "train.steps": 6, "train.global_batch_size": 19} if session.emulated else values


def apart(mine, theirs):
    return [abs(a - b) / max(abs(b), 1e-12) for a, b in zip(mine, theirs)]


def compare(name, mine, theirs, tolerance):
    if len(mine) != len(theirs) or not mine:
        raise Failure(f"{name}: {len(mine)} losses, the CPU gave {len(theirs)}")
    differs = apart(mine, theirs)
    if not all(difference <= tolerance for difference in differs):  # none of them NaN
        raise Failure(f"{name}: losses differ by {max(differs):.2g} (the first by {differs[0]:.2g}), allowed {tolerance:g}")
    goal = "the same bits" if tolerance == 0 else f"within {tolerance:g}"
    return (f"{name}: loss over {len(mine)} steps", f"differs by {max(differs):.1e}, the first by {differs[0]:.1e}", goal, True)


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
    yield compare(name, device_losses(session, name, values), expected, tolerance)


def compare_bf16(name, mine, theirs, wide):
    if not len(mine) == len(theirs) == len(wide) or not mine:
        raise Failure(f"{name}: {len(mine)} losses, the CPU gave {len(theirs)} and {len(wide)}")
    first = apart(mine, theirs)[0]
    drift, allowed = sum(apart(mine, wide)) / len(mine), BF16_TIMES * sum(apart(theirs, wide)) / len(wide)
    if not first <= BF16_FIRST:
        raise Failure(f"{name}: the first loss differs by {first:.2g}, allowed {BF16_FIRST:.2g}")
    if not drift <= allowed:
        raise Failure(f"{name}: losses are {drift:.2g} from those of fp32 on average, allowed {allowed:.2g}")
    return (f"{name}: loss over {len(mine)} steps",
            f"{drift:.1e} from fp32's on average, the CPU {allowed / BF16_TIMES:.1e}; the first differs by {first:.1e}",
            f"within {BF16_TIMES} times the CPU's, the first within {BF16_FIRST:.1e}", True)


def bf16_against_cpu(session, name, values):
    values = shorten(session, values)
    wide = reference_losses(session, name + "-wide", values)
    theirs = reference_losses(session, name, {**values, **BF16})
    yield compare_bf16(name, device_losses(session, name, {**values, **BF16}), theirs, wide)


def host_tier(session):
    # Bits are compared, so algorithms of products must not be chosen by timing.
    values = {**shorten(session, ADAGRAD), "train.pin_algorithms": "true"}
    expected = device_losses(session, "all-on-device", values)
    some = device_losses(session, "user-on-host", {**values, "memory.tables": "{user: host}"})
    yield compare("one table in host memory, against none", some, expected, 0)
    every = device_losses(session, "all-on-host", {**values, "memory.tier": "host"})
    yield compare("all tables in host memory, against none", every, expected, 0)


def shared_gpu(session, ranks):
    values = shorten(session, ADAGRAD)
    expected = reference_losses(session, f"{ranks}-staged", values)
    for strategy in ("table", "row", "data_parallel") if ranks == 2 else ("auto", "grid"):
        name = f"{ranks}-staged-{strategy}"
        mine = device_losses(session, name, {**values, "comm": "staged", "sharding.strategy": strategy}, ranks=ranks)
        yield compare(name, mine, expected, 1e-5)


def nccl_alone(session):
    values = shorten(session, ADAGRAD)
    expected = reference_losses(session, "nccl-1", values)
    yield compare("nccl-1", device_losses(session, "nccl-1", {**values, "comm": "nccl"}), expected, 1e-5)


def nccl_two_ranks(session):
    """NCCL refuses two ranks on one GPU of one machine. With different host ids it takes them for two machines."""
    values = {**shorten(session, ADAGRAD), "comm": "nccl", "train.timeout": 30}
    expected = reference_losses(session, "nccl-2", shorten(session, ADAGRAD))
    own_name = ("bash", "-c", 'NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK exec "$0" "$@"')
    env = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}
    for strategy in ("table", "row"):
        name = f"nccl-2-{strategy}"
        if session.emulated:  # its NCCL meets between processes in a folder
            env["DLRM_NCCL_STAND_IN"] = os.path.join(session.scratch, name + "-mail")
            shutil.rmtree(env["DLRM_NCCL_STAND_IN"], ignore_errors=True)
        mine = device_losses(session, name, {**values, "sharding.strategy": strategy}, ranks=2, env=env,
                             wrapper=own_name)
        yield compare(name, mine, expected, 1e-5)


def sanitizer_program(session):
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if session.emulated:
        raise Skip("no CUDA runs here; the preset simt-asan looks for the same")
    if not os.access(program, os.X_OK):
        raise Skip("compute-sanitizer is not installed")
    return program


def first_words(run):
    """The first error that the sanitizer printed."""
    lines = [line.strip("= \n") for line in run.text().splitlines() if line.startswith("=========")]
    said = [line for line in lines if line and not line.startswith("COMPUTE-SANITIZER")]
    return "; ".join(said[:3])[:300] or run.last_line()


def sanitized(session, tool):
    """Training under a tool of compute-sanitizer: the tensor cores' kernels, then the others."""
    wrapper = (sanitizer_program(session), "--tool", tool, "--error-exitcode", "9")
    for case, values in (("dot-bf16", {**ADAGRAD, **BF16}), ("cross-fp32", {**CROSS, **SMALL_ADAGRAD})):
        run, _ = train(session, f"sanitizer-{tool}-{case}", PARITY, {**values, "train.steps": 4}, "cuda", wrapper=wrapper)
        if "Device not supported" in run.text():
            raise Skip("compute-sanitizer does not work on this machine: Device not supported")
        if run.timed_out:
            raise Skip(f"{tool}, {case}: no end within {run.seconds:.0f} s")
        if run.code != 0:
            raise Failure(f"{tool}, {case}: exit code {run.code}: {first_words(run)}")
        yield (f"{tool}, {case}", "0 errors", "0 errors", True)


def sanitized_suite(session):
    wrapper = (sanitizer_program(session), "--tool", "memcheck", "--error-exitcode", "9")
    return suite(session, "ops_test", "*cuda*:Gpu*", wrapper, partial=True)


def add(session):
    tiny = session.emulated
    session.step("proof", "operations", "operations", 150,
                 lambda s: suite(s, "ops_test", "*EmbeddingBits*cuda*:*GpuStep*cuda*" if tiny else "*cuda*:Gpu*"))
    session.step("proof", "devices", "devices", 40, lambda s: suite(s, "device_test", "*Sort*:*Matmul*" if tiny else "*"))
    session.step("proof", "communicators", "communicators", 60, lambda s: suite(
        s, "comm_test", "*StagedComm*Cuda2" if tiny else "*Cuda*:*Nccl*:*Staged*:*DeviceComm*"))
    for name, values, tolerance in CASES:
        session.step("proof", f"losses-{name}", f"losses of the CPU, {name}", 30,
                     lambda s, n=name, v=values, t=tolerance: against_cpu(s, n, v, t))
    for name, values in BF16_CASES:
        session.step("proof", f"losses-{name}", f"losses of the CPU, {name}", 30,
                     lambda s, n=name, v=values: bf16_against_cpu(s, n, v))
    session.step("proof", "host-tier", "rows in host memory", 30, host_tier)
    if not tiny:
        session.step("proof", "training", "training", 60, lambda s: suite(s, "train_test", "*OnADevice*:Model.*:StepGraphs.*:GraphStep.*:StageClock.*"))
    session.step("proof", "nccl-1", "NCCL, 1 rank", 30, nccl_alone)
    session.step("proof", "staged-2", "2 ranks share the GPU", 60, lambda s: shared_gpu(s, 2))
    if not tiny:
        session.step("proof", "staged-4", "4 ranks share the GPU", 60, lambda s: shared_gpu(s, 4))
    session.step("proof", "nccl-2", "NCCL, 2 ranks on one GPU", 75, nccl_two_ranks)


def add_sanitizer(session):
    """Runs last: it is slow and gives no figures."""
    for tool in ("memcheck", "racecheck", "synccheck"):
        session.step("proof", f"sanitizer-{tool}", f"compute-sanitizer, {tool}", 60, lambda s, t=tool: sanitized(s, t))
        if session.emulated:
            return
    if not session.quick:
        session.step("proof", "sanitizer-operations", "compute-sanitizer, operations", 150, sanitized_suite)
