"""Training on the machine's processor, with 1 to 16 threads."""
import os

from benchmarks import rate

THREADS = (1, 2, 4, 8, 16)
CASES = (("kaggle", 2048, 20), ("kaggle", 16384, 5), ("lookup", 4096, 1))  # config, batch, steps a line of metrics
SECONDS = 9  # of a run, which ends then


def threads(session):
    for config, batch, every in CASES:
        times = {}
        for count in (count for count in THREADS if count <= (os.cpu_count() or 1)):
            name = f"cpu-{config}-{batch}-threads-{count}"
            values = {"train.threads": count, "output.metrics_every": every, "data.workers": 1}
            yield from rate(session, name, f"bench/{config}.yaml", values, batch, 1000000, device="cpu", limit=SECONDS)
            times[count] = session.facts["runs"][name]["steady_step_ms"]
        if not session.emulated:
            yield (f"{config}, batch {batch}", ", ".join(f"{times[1] / ms:.2f} times as fast with {count} threads"
                                                         for count, ms in times.items() if count > 1), "", None)
