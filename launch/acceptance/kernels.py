"""dlrm-bench kernels. Its file has a line for each figure, so a crash or a hang keeps those before it."""
import json
import os

from commands import Failure, Skip

# If timing all kernels in one process fails, these kinds are timed in processes of their own (--only).
KINDS = ("lookup", "update", "group", "dot", "cross", "linear", "copy", "average pool", "fm", "dense", "convert", "fill")
TINY = ["--batch=24", "--tables=2", "--rows=50", "--hotness=3", "--width=8", "--features=5", "--matrix=16", "--copied=4096",
        "--layer=16", "--crossed=40", "--rank=8", "--parameters=1000", "--seconds=0", "--only=uniform ids"]


class Lines:
    """The complete lines of a growing file."""

    def __init__(self, path):
        self.path, self.at = path, 0

    def new(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.at)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self.at += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]


def figures(session):
    return session.facts.setdefault("kernels", {"limits": {}, "kernels": []})


def take(session, line):
    """Adds a line of the file to the facts, and a row to the step. A figure that is known already is not taken again."""
    known = figures(session)
    if "limit" in line:
        if line["limit"] not in known["limits"]:
            rate = f"{line['gb_per_second']:.0f} GB/s" if "gb_per_second" in line else f"{line['gflops'] / 1e3:.1f} TFLOP/s"
            known["limits"][line["limit"]] = line.get("gb_per_second", line.get("gflops"))
            session.add(f"limit: {line['limit']}", rate)
    elif "sizes" in line:
        known.update(line)
    elif line["name"] not in [kernel["name"] for kernel in known["kernels"]]:
        known["kernels"].append(line)
        goal = None if session.emulated else line.get("goal")
        words = f"{line['milliseconds']:.4f} ms, {100 * line['share']:.0f} % of the limit"
        session.add(line["name"], words + (f", {line['note']}" if "note" in line else ""), f"{100 * goal:.0f} %" if goal else "",
                    line["share"] >= goal if goal else None)


def time_kernels(session, name, *options, limit=None):
    out = session.path(name + ".jsonl")
    if os.path.exists(out):
        os.remove(out)
    lines = Lines(out)

    def watch():
        for line in lines.new():
            take(session, line)

    session.run(name, [session.program("dlrm-bench"), "kernels", "--device", "cuda", "--output", out, *options],
                limit=limit, watch=watch).expect_success(name)


def all_at_once(session):
    time_kernels(session, "kernels", *(TINY if session.emulated else []))
    figures(session)["complete"] = True
    return zipf_rows(figures(session)["kernels"])


def apart(session):
    """Kinds without a figure first."""
    if "complete" in figures(session):
        raise Skip("every figure is known")
    known = [kernel["name"] for kernel in figures(session)["kernels"]]
    failed = []
    for kind in sorted(KINDS, key=lambda kind: any(kind in name for name in known)):
        try:
            time_kernels(session, f"kernels-{kind.replace(' ', '-')}", *(TINY[:-1] if session.emulated else []), "--only", kind,
                         limit=10)
        except Failure as reason:
            failed.append(kind)
            session.add(kind, str(reason), "", False)
    if failed:
        raise Failure("failed: " + ", ".join(failed))
    return zipf_rows(figures(session)["kernels"])


def zipf_rows(rows):
    times = {kernel["name"]: kernel["milliseconds"] for kernel in rows}
    try:
        ratio = times["update adagrad, zipf ids"] / times["update adagrad, uniform ids"]
    except KeyError:
        return []
    return [("update adagrad, Zipf over uniform ids", f"{ratio:.2f} times as long", "no slower", ratio <= 1.05)]
