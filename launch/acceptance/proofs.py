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
CROSS = {"model.interaction": "{type: cross, layers: 2, rank: 6}"}
CONCAT = {"model.interaction": "{type: concat, average_pool: 4}"}
BF16 = {"train.precision": "bf16"}

# Settings of fp32, and the largest relative difference of a step's loss from the CPU's.
CASES = {"dot-sgd-fp32": {}, "concat-adagrad-fp32": {**CONCAT, **ADAGRAD}}
FP32 = 1e-5
BF16_CASES = {"cross-adagrad-bf16": {**CROSS, **SMALL_ADAGRAD}}
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


def losses_agree(session, case):
    if case in BF16_CASES:
        yield from bf16_against_cpu(session, case, BF16_CASES[case])
        return
    values = shorten(session, CASES[case])
    expected = reference_losses(session, case, values)
    yield compare(case, device_losses(session, case, values), expected, FP32)


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
    expected = reference_losses(session, f"staged-{ranks}", values)
    for strategy in ("table", "row"):
        name = f"staged-{ranks}-{strategy}"
        mine = device_losses(session, name, {**values, "comm": "staged", "sharding.strategy": strategy}, ranks=ranks)
        yield compare(name, mine, expected, 1e-5)


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


def operations(session):
    return suite(session, "ops_test", "*GpuStep.RowsOfHostMemory*cuda*" if session.emulated else "*cuda*:Gpu*", partial=True)


def devices(session):
    return suite(session, "device_test", "*Sort*:*Matmul*" if session.emulated else "*", partial=True)


def training(session):
    return suite(session, "train_test", "StageClock.*" if session.emulated else
                 "*OnADevice*:Model.*:StepGraphs.*:GraphStep.*:StageClock.*", partial=True)
