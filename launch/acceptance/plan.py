"""What the two calls do, in which order, and how long each part and step may take."""
import benchmarks
import cores
import kernels
import peers
import profiles
import proofs
import start

LIMITS = {"first": 520, "second": 560}  # seconds of a call


def first(session):
    """Figures before tests, and what most depends on before what least does."""
    with session.part(20):
        session.step("start", "the machine", 20, start.look_around)
    with session.part(30):
        for case in ("dot-sgd-fp32", "concat-adagrad-fp32", "cross-adagrad-bf16"):
            session.step(f"losses-{case}", f"losses of the CPU, {case}", 15, lambda s, c=case: proofs.losses_agree(s, c))
    with session.part(60):
        session.step("kernels", "kernels", 60, kernels.all_at_once)
    with session.part(40):  # only after a failure
        session.step("kernels-apart", "kernels, each kind in a process of its own", 40, kernels.apart)
    with session.part(60):
        for law in ("uniform", "zipf"):
            session.step(f"dcnv2-{law}", f"MLPerf DLRM-DCNv2, one batch of {law} ids", 30,
                         lambda s, l=law: benchmarks.dcnv2(s, l))
    with session.part(40):
        session.step("tiny", "DE Tiny, one batch", 20, lambda s: benchmarks.synthetic(s, "tiny", 2))
        session.step("dle-4b", "DLE 4.2B, one batch", 20, benchmarks.dle_4b)
    with session.part(40):
        session.step("stages", "stages of a DCNv2 step", 25, profiles.stages)
        session.step("products", "cuBLASLt's choices for DCNv2", 20, profiles.products)
    with session.part(90):
        session.step("launches", "launches of an eager DCNv2 step", 45, profiles.launches)
        session.step("counters", "counters of the heaviest kernels", 60, profiles.counters)
    with session.part(100):
        session.step("operations", "operations", 60, proofs.operations)
        session.step("devices", "devices", 20, proofs.devices)
        session.step("training", "training", 30, proofs.training)
        session.step("host-tier", "rows in host memory", 20, proofs.host_tier)
    with session.part(80):
        session.step("nccl-2", "NCCL, 2 ranks on one GPU", 35, proofs.nccl_two_ranks)
        session.step("staged-2", "2 ranks share the GPU", 30, lambda s: proofs.shared_gpu(s, 2))
        session.step("memcheck", "compute-sanitizer, memcheck", 40, lambda s: proofs.sanitized(s, "memcheck"))


def second(session):
    with session.part(20):
        session.step("start", "the machine", 20, start.look_around)
    with session.part(40):
        session.step("synccheck", "compute-sanitizer, synccheck", 40, lambda s: proofs.sanitized(s, "synccheck"))
    with session.part(60):
        session.step("racecheck", "compute-sanitizer, racecheck", 60, lambda s: proofs.sanitized(s, "racecheck"))
    with session.part(120):
        session.step("dle-23b", "DLE 22.8B, device and host", 120, benchmarks.dle_23b)
    with session.part(40):
        session.step("small", "DE Small, one batch", 40, lambda s: benchmarks.synthetic(s, "small", 9))
    with session.part(100):
        session.step("pytorch", "PyTorch on the same GPU", 100, peers.pytorch)
    with session.part(160):
        session.step("cores", "training on the CPU", 160, cores.threads)


CALLS = {"first": first, "second": second}
