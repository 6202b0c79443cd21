#!/usr/bin/python3
"""Trains through random faults and checks that every result is bitwise that of an undisturbed run.

    tests/storm.py --minutes N [--seed S] [--bin build/cpu/bin]

Each case trains a small model with a random configuration. Its parts end by a random fault: killed
or stopped ranks, a request to stop, a full disk, failing, short, interrupted or slow file
operations, a damaged checkpoint. Each part resumes the one before. At the end the weights, the
optimizer state and metrics.jsonl must be those of a run without faults. No part may hang, end
without an error line, or leave a process behind.

The last line gives the counts. The exit code is 1 if there was a finding. Its folder is kept.
"""

import argparse
import collections
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checkpoint_digest import digest

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "end_to_end", "small_model.yaml")
TRAINING = """train: {global_batch_size: 65, steps: 240, threads: 1, timeout: 6}
eval: {every_steps: 60}
checkpoint: {directory: ckpt, every_steps: 15, at_end: true}
output: {directory: run, metrics_every: 4}
"""
TIMEOUT = 6  # seconds, train.timeout above
MARGIN = 60  # seconds that a part may take beyond the undisturbed run and the timeout
FAULTS = ["kill rank", "kill all", "stop request", "stopped rank", "full disk", "failing files",
          "short and interrupted", "slow files", "damaged checkpoint", "none"]


class Finding(Exception):
    """Behaviour that docs/reliability.md excludes."""


def configurations(rng, cuda):
    """A random configuration: number of ranks and --set options."""
    ranks = rng.choice([1, 2, 2, 3, 4])
    options = {
        "sharding.strategy": rng.choice(["auto", "table", "row", "column", "grid"]),
        "routing.mode": rng.choice(["exact", "fixed"]),
        "routing.depth": rng.choice(["0", "1", "3"]),
        "train.sparse_optimizer.type": rng.choice(
            ["sgd", "adagrad", "rowwise_adagrad", "adam", "ftrl"]),
        "train.dense_optimizer.type": rng.choice(["sgd", "adagrad", "adam", "lamb"]),
        "train.dense_optimizer.lr": "0.01",
        "train.sparse_optimizer.lr": "0.01",
        "train.precision": rng.choice(["fp32", "bf16"]),
        "data.workers": rng.choice(["1", "3"]),
        "device": "cpu",
    }
    if rng.random() < 0.4:  # a table of more than 1 MiB, which may be cached
        options.update({"model.embedding_dim": "128", "model.bottom_mlp": "[16,128]"})
    if cuda and rng.random() < 0.2:
        options.update({"device": "cuda", "train.steps": "60"})
    return ranks, options


def tier(rng, options):
    """Where the tables of one part are. It changes no result."""
    if options["device"] != "cpu" or rng.random() < 0.3:
        return {}
    return {"memory.tier": "cached", "memory.cached.fast": rng.choice(["8%", "30%", "100%"]),
            "memory.cached.backing": rng.choice(["ssd", "host"]),
            "memory.cached.policy": rng.choice(["lookahead", "lru16"]),
            "memory.cached.window": rng.choice(["0", "1", "4"])}


class Job:
    """One start of dlrm-train in `folder`."""

    def __init__(self, folder, bins, ranks, options, arguments=(), faults=""):
        sets = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        shim = ["env", "LD_PRELOAD=" + bins["shim"], "DLRM_FAULTS=" + faults] if faults else []
        self.ranks = ranks
        self.command = ["mpirun", "--quiet", "--bind-to", "none", "--oversubscribe", "-np", str(ranks),
                        *shim, bins["train"], "config.yaml", *sets, *arguments]
        self.errors = os.path.join(folder, "errors.txt")
        with open(self.errors, "ab") as log:
            log.write(("\n$ " + " ".join(self.command) + "\n").encode())
            log.flush()
            self.start = os.path.getsize(self.errors)
            self.process = subprocess.Popen(self.command, cwd=folder, env=environment, stdout=log,
                                            stderr=log, start_new_session=True)

    def pids(self):
        """The ranks' processes."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True,
                               text=True, check=False).stdout.split()
        return [int(pid) for pid in found]

    def send(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def wait(self, limit):
        """The exit code. A Finding if the job takes longer or leaves a process."""
        pids = self.pids()
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired as error:
            self.end()
            raise Finding(f"the job did not end within {limit:.0f} s") from error
        for _ in range(100):
            left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
            if not left:
                return code
            time.sleep(0.05)
        self.end()
        raise Finding(f"processes {left} are left behind")

    def is_over_but_for(self, pids):
        """Whether all ranks but these, which are stopped, have ended."""
        return set(self.pids()) <= set(pids)

    def end(self):
        for pid in self.pids():
            self.send(pid, signal.SIGKILL)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def log(self):
        with open(self.errors, "rb") as file:
            file.seek(self.start)
            return file.read().decode(errors="replace")


def metrics(folder):
    """The lines of metrics.jsonl without what depends on the clock."""
    lines = []
    with open(os.path.join(folder, "run/metrics.jsonl"), encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            line.pop("time", None)
            line.pop("samples_per_second", None)
            line.pop("cache", None)
            lines.append(line)
    return lines


def checkpoints(folder):
    return sorted(glob.glob(os.path.join(folder, "ckpt/step_*")))


class Storm:
    def __init__(self, arguments):
        self.rng = random.Random(arguments.seed)
        self.folder = tempfile.mkdtemp(prefix="storm_", dir=arguments.folder)
        self.bins = {"train": os.path.abspath(os.path.join(arguments.bin, "dlrm-train")),
                     "shim": os.path.join(self.folder, "faults.so")}
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", self.bins["shim"],
                        os.path.join(HERE, "storm/faults.c"), "-ldl"], check=True)
        self.cuda = subprocess.run(["nm", "-C", self.bins["train"]], capture_output=True, text=True,
                                   check=False).stdout.find("simt") >= 0
        with open(os.path.join(self.folder, "config.yaml"), "w", encoding="utf-8") as file:
            with open(MODEL, encoding="utf-8") as model:
                file.write(model.read() + TRAINING)
        tool = os.path.join(arguments.bin, "dlrm-data")
        for name, samples, seed in (("train", 2000, 1), ("test", 501, 9)):
            subprocess.run([os.path.abspath(tool), "synth", "--samples", str(samples), "--config",
                            "config.yaml", "--output", name + ".h5", "--teacher", "3", "--seed",
                            str(seed)], cwd=self.folder, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        self.known = {}
        self.counts = collections.Counter()
        self.findings = 0

    def new_folder(self, name):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        for file in ("config.yaml", "train.h5", "test.h5"):
            os.link(os.path.join(self.folder, file), os.path.join(folder, file))
        return folder

    def undisturbed(self, ranks, options):
        """Hash, metrics and seconds of the run without faults."""
        key = json.dumps([ranks, options], sort_keys=True)
        if key not in self.known:
            folder = self.new_folder(f"reference_{len(self.known)}")
            begin = time.monotonic()
            job = Job(folder, self.bins, ranks, options)
            if job.wait(300) != 0:
                raise Finding("the run without faults fails:\n" + job.log())
            seconds = time.monotonic() - begin
            self.known[key] = (digest(checkpoints(folder)[-1]), metrics(folder), seconds)
            shutil.rmtree(folder)
        return self.known[key]

    def damage(self, folder):
        """Changes or cuts a file of the newest checkpoint, if there is an older one."""
        found = checkpoints(folder)
        if len(found) < 2:
            return
        path = self.rng.choice(sorted(glob.glob(found[-1] + "/*")))
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            if self.rng.random() < 0.3:
                file.truncate(self.rng.randrange(size))
                return
            at = self.rng.randrange(size)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ (1 << self.rng.randrange(8))]))

    def file_faults(self, fault, folder):
        """DLRM_FAULTS of storm/faults.c."""
        rates = {"full disk": "full=1" if self.rng.random() < 0.5 else "enospc=0.01",
                 "failing files": "eio=0.002",
                 "short and interrupted": "short=0.3 intr=0.1",
                 "slow files": "slow=0.02"}.get(fault)
        if not rates:
            return ""
        return f"folder={os.path.realpath(folder)} seed={self.rng.randrange(10**6)} {rates}"

    def part(self, folder, ranks, options, fault, seconds):
        """Runs dlrm-train until it ends by itself or by the fault. Returns its exit code."""
        if fault == "damaged checkpoint":
            self.damage(folder)
        job = Job(folder, self.bins, ranks, options, ["--resume"], self.file_faults(fault, folder))
        limit = 3 * seconds + TIMEOUT + MARGIN
        allowed = {"none": {0}, "damaged checkpoint": {0}, "slow files": {0},
                   "short and interrupted": {0}, "stop request": {0, 130},
                   "full disk": {0, 2, 3}, "failing files": {0, 2, 3}, "stopped rank": {0, 3}}
        if fault in ("kill rank", "kill all", "stop request", "stopped rank"):
            time.sleep(self.rng.uniform(0, 1.2 * seconds))
            pids = job.pids()
            victims = pids if fault == "kill all" else self.rng.sample(pids, min(len(pids), 1))
            number = {"stop request": signal.SIGUSR1, "stopped rank": signal.SIGSTOP}.get(
                fault, signal.SIGKILL)
            # Before its handlers are set, a request ends a process. That is as a kill.
            young = not job.log()
            for pid in victims:
                job.send(pid, number)
            if fault == "stop request" and young:
                allowed[fault] = {0, 130, 138}
            if fault == "stopped rank" and ranks == 1:
                # Nobody is left who could notice.
                time.sleep(0.5)
                for pid in victims:
                    job.send(pid, signal.SIGCONT)
        if fault == "stopped rank":
            # A rank that has left MPI when it is stopped keeps mpirun alone waiting.
            deadline = time.monotonic() + limit
            while job.process.poll() is None and not job.is_over_but_for(victims):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)
            if job.is_over_but_for(victims):
                for pid in victims:
                    job.send(pid, signal.SIGCONT)
        code = job.wait(limit)
        text = job.log()
        if fault in allowed and code not in allowed[fault]:
            raise Finding(f"{fault}: exit code {code}:\n{text}")
        if code in (2, 3) and "error: " not in text:
            raise Finding(f"{fault}: exit code {code} without an error line:\n{text}")
        for bad in ("Segmentation fault", "Bus error", "terminate called", "AddressSanitizer"):
            if bad in text:
                raise Finding(f"{fault}: {bad}:\n{text}")
        return code

    def case(self, number):
        ranks, options = configurations(self.rng, self.cuda)
        # Some configurations come back, so that not every case pays for a run without faults.
        if self.known and self.rng.random() < 0.6:
            ranks, options = json.loads(self.rng.choice(sorted(self.known)))
        expected, lines, seconds = self.undisturbed(ranks, options)
        folder = self.new_folder(f"case_{number}")
        history = []
        try:
            lost_lines = False
            for _ in range(self.rng.randrange(2, 8)):
                fault = self.rng.choice(FAULTS)
                history.append(fault)
                self.counts[fault] += 1
                self.counts["parts"] += 1
                code = self.part(folder, ranks, {**options, **tier(self.rng, options)}, fault, seconds)
                lost_lines = lost_lines or fault in ("full disk", "failing files")
                if code == 0 and fault == "none":
                    break
            self.counts["parts"] += 1
            self.part(folder, ranks, {**options, **tier(self.rng, options)}, "none", seconds)
            found = checkpoints(folder)
            if not found or digest(found[-1]) != expected:
                raise Finding("weights or state differ from those of the run without faults")
            mine = metrics(folder)
            if mine != lines and not (lost_lines and all(line in lines for line in mine)):
                raise Finding("metrics.jsonl differs from that of the run without faults")
            leftovers = [name for name in os.listdir(os.path.join(folder, "ckpt"))
                         if name.startswith(".tmp")]
            if leftovers:
                raise Finding(f"unfinished files remain: {leftovers}")
            shutil.rmtree(folder)
        except Finding as finding:
            self.findings += 1
            print(f"FINDING in {folder} with {ranks} ranks, {options}, after {history}:\n{finding}",
                  flush=True)

    def run(self, minutes, cases):
        begin = time.monotonic()
        number = 0
        while (number < cases) if cases else (time.monotonic() - begin < 60 * minutes):
            self.case(number)
            number += 1
            print(f"{number} cases, {self.findings} findings", flush=True)
        kinds = ", ".join(f"{name}: {self.counts[name]}" for name in FAULTS)
        print(f"{number} cases, {self.counts['parts']} parts ({kinds}), "
              f"{len(self.known)} configurations, {time.monotonic() - begin:.0f} s, "
              f"{self.findings} findings")
        if not self.findings:
            shutil.rmtree(self.folder)
        return 1 if self.findings else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--cases", type=int, default=0, help="so many cases, however long they take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bin", default="build/cpu/bin", help="folder of dlrm-train and dlrm-data")
    parser.add_argument("--folder", help="where the runs' folders are made (default: TMPDIR)")
    arguments = parser.parse_args()
    return Storm(arguments).run(arguments.minutes, arguments.cases)


if __name__ == "__main__":
    sys.exit(main())
