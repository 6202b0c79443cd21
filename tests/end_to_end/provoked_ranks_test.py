#!/usr/bin/env python3
"""Jobs of ranks that differ, and runs in unusual states: everything that they print, compared with provoked_ranks.json.

    provoked_ranks_test.py FOLDER/OF/PROGRAMS [--update]

Times and rates are left out, and so are digits of losses beyond the second. With --update the file is written anew."""
import os
import re
import shutil
import socket
import subprocess

from provoking import HERE, Provoking, main, program

TRAIN = "dlrm-train config.yaml --set data.test= --set eval.at_end=false --set train.threads=1 --set train.steps=3 "


class ProvokedRanks(Provoking):
    expected = os.path.join(HERE, "provoked_ranks.json")

    @classmethod
    def shown(cls, text):
        for pattern, to in [(re.escape(cls.folder), "FOLDER"), (rf"\b{re.escape(socket.gethostname())}\b", "HOST"),
                            (r"^\d\d:\d\d:\d\d ", ""), (r"cpu: .*", "CPU"), (r"[\d.]+[kM]? samples/s", "RATE"),
                            (r"[\d.]+ ms a step", "TIME"), (r"  \d+:\d\d$", ""), (r"(\d\.\d\d)\d+", r"\1"),
                            (r"[\d.]+ GB/s a rank", "RATE"), (r"\.[0-9a-f]{8}\.tmp", ".TEMPORARY"), (r"pid \d+", "pid N"),
                            (r"started [-\d]+ [\d:]+", "started THEN"),
                            (r"(host memory over ).*", r"\1QUEUE")]:
            text = re.sub(pattern, to, text, flags=re.M)
        # Plans are told in other tests, and MPI says more of a job that failed.
        lines = [line for line in text.splitlines() if not re.match(r"\s*$|\s+(rank|\d|total|mean)|max/mean|exchange of|plan:", line)]
        failed = [line for line in lines if line.startswith(("error:", "failed "))]
        return failed or lines

    def run_ranks(self, *ranks):
        """Starts a rank for each pair of a folder and a command, as one job."""
        command = ["mpirun", "--oversubscribe", "--bind-to", "none"]
        for folder, words in ranks:
            name, *words = words.split()
            command += [":"] * (command[-1] != "none") + ["-n", "1", "-wdir", self.path(folder), program(name), *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
                              env=dict(os.environ, OMP_NUM_THREADS="1"))
        # The lines of ranks mix, so they are in the order of the alphabet.
        return [done.returncode, *sorted(self.shown(done.stdout + done.stderr))]

    def fresh(self, *changes):
        """Two folders with the same files, but for these changes in the second."""
        for name in ("one", "two"):
            shutil.rmtree(self.path(name), ignore_errors=True)
            os.mkdir(self.path(name))
            for file in ("config.yaml", "train.h5", "test.h5"):
                shutil.copy(self.path(file), self.path(name))
            shutil.copytree(self.path("ckpt"), self.path(name + "/ckpt"))
        for change in changes:
            change(self.path("two"))

    def test_ranks_that_differ(self):
        def other_config(folder):
            with open(folder + "/config.yaml", encoding="utf-8") as file:
                text = file.read()
            with open(folder + "/config.yaml", "w", encoding="utf-8") as file:
                file.write(text.replace("rows: 500", "rows: 501"))

        def other_step(folder):
            os.rename(folder + "/ckpt/step_000000002", folder + "/ckpt/step_000000004")

        def remove(name):
            return lambda folder: shutil.rmtree(folder + "/" + name) if os.path.isdir(folder + "/" + name) else os.remove(
                folder + "/" + name)

        train = TRAIN + "--set checkpoint.directory=new "
        resume = TRAIN + "--resume "
        cases = {
            "config": (train, train, other_config), "no config": (train, train, remove("config.yaml")),
            "no data": (train, train, remove("train.h5")),
            "command": (train, train + "--set train.seed=3 "), "steps": (train, train + "--set train.steps=4 "),
            "checkpoint folder": (resume, resume, remove("ckpt")), "checkpoint": (resume, resume, remove("ckpt/step_000000002")),
            "step": (resume, resume, other_step), "rank file": (resume, resume, remove("ckpt/step_000000002/rank_00000.h5")),
            "index": (resume, resume, remove("ckpt/step_000000002/index.h5")),
            "only there": (train + "--init-from=none", train + "--init-from=none", lambda folder: os.mkdir(folder + "/none")),
            "saved": (train + "--set checkpoint.at_end=true", train + "--set checkpoint.at_end=true"),
            "preflight": ("dlrm-preflight --folder .", "dlrm-preflight --folder ."),
            "predictions": (TRAIN.replace(" --set data.test=", "") + "--eval-only --predict p.csv",) * 2}
        found = {}
        for name, (first, second, *changes) in cases.items():
            self.fresh(*changes)
            found[name] = self.run_ranks(("one", first), ("two", second))
        self.compare("ranks", found)

    def test_unusual_runs(self):
        """Whole logs of one rank, and of two that resume what one has saved."""
        train = TRAIN + "--set checkpoint.directory=new "
        evaluated = "dlrm-train config.yaml --set train.threads=1 --set checkpoint.directory=new "
        cached = (train + "--set model.tables.big.rows=100000 --set memory.tier=cached --set memory.cached.fast=8% "
                  "--set data.train= --set data.source=synthetic ")
        slow = " --set train.dense_optimizer.lr=1e-9 --set train.sparse_optimizer.lr=1e-9"
        cases = {
            "later steps": TRAIN.replace("steps=3", "steps=1") + "--set checkpoint.at_end=true --init-from=ckpt",
            "scaled": train + "--set train.lr_scaling=linear --set train.lr_base_batch=13",
            "scaled by roots": train + "--set train.lr_scaling=sqrt --set train.lr_base_batch=130",
            "steep": train + "--set train.sparse_optimizer.lr=1e6 --set train.dense_optimizer.lr=1e6",
            "nothing saved": train + "--resume", "other tables": TRAIN + "--resume --set sharding.strategy=row",
            "host": cached + "--set memory.cached.backing=host", "middle": cached + "--set memory.cached.middle=80%",
            "static": cached + "--set memory.cached.policy=static --set memory.cached.backing=host",
            "does not fit": cached.replace("8%", "0.01%") + "--set memory.cached.backing=host",
            "enough": evaluated + "--set eval.every_steps=2 --set eval.stop_at_auc=0.1",
            "patience": evaluated + "--set eval.every_steps=1 --set eval.patience=1" + slow,
            "slices": evaluated + "--set train.steps=2 --set eval.slice_by=left",
            "auto": train.replace("steps=3", "steps=1") + "--set train.global_batch_size=auto --set memory.device=1MiB"}
        found = {}
        for name, command in cases.items():
            self.fresh()
            code, text = self.run_program(command, folder="one")
            found[name] = [code, *self.shown(text)]
        for words in ("", "--set sharding.strategy=row", "--set sharding.strategy=column"):
            self.fresh()
            command = TRAIN.replace("steps=3", "steps=4") + "--resume " + words
            found["resumed by two: " + words] = self.run_ranks(("one", command), ("one", command))
        self.compare("runs", found)


if __name__ == "__main__":
    main()
