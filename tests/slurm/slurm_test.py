#!/usr/bin/env python3
"""launch/slurm/cpu.sbatch on a Slurm of one node, which the test starts and stops. slurm_test.py FOLDER/OF/PROGRAMS"""
import glob
import json
import os
import shutil
import signal
import sys
import tempfile
import unittest

from checkpoint_digest import digest
from cluster import Cluster, wait_until, why_not

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = os.environ.get("DLRM_SLURM_SCRIPTS", os.path.join(ROOT, "launch/slurm"))
CONFIG = """model:
  dense_features: 3
  embedding_dim: 8
  bottom_mlp: [64, 8]
  top_mlp: [64, 1]
  tables:
    - {{name: a, rows: 5000}}
    - {{name: b, count: 2, rows: 300, hotness: 3}}
data: {{source: synthetic, synthetic: {{samples: 100000}}}}
train: {{global_batch_size: 2048, steps: {steps}}}
checkpoint: {{directory: "{folder}/ckpt", at_end: true}}
output: {{directory: "{folder}/run", metrics_every: 5}}
device: cpu
"""
ENDLESS = 100000000


class Slurm(unittest.TestCase):
    cluster = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="slurm_jobs_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self.cluster.cancel_all)
        self.control("update", "PartitionName=low", "State=UP")

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def write_config(self, name, steps, folder):
        with open(self.path(name + ".new"), "w", encoding="utf-8") as file:
            file.write(CONFIG.format(steps=steps, folder=folder))
        os.rename(self.path(name + ".new"), self.path(name))

    def submit(self, *arguments, options=(), script="cpu.sbatch"):
        """The id of a job with two ranks of one thread. Scripts are those of launch/slurm, or paths."""
        done = self.cluster.run("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1",
                                "--output=%x-%A.log", "--time=10", *options, os.path.join(SCRIPTS, script), *arguments, folder=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def state(self, job):
        found = self.cluster.run("squeue", "--noheader", "--array", "--format=%T", "--states=all", "--jobs", job)
        return " ".join(found.stdout.split())

    def log(self, job):
        name = f"dlrm-train-{job}.log"
        return self.read(name) if os.path.exists(self.path(name)) else ""

    def field(self, job, name):
        shown = self.cluster.run("scontrol", "show", "job", job).stdout.split()
        return dict(word.split("=", 1) for word in shown if "=" in word).get(name)

    def control(self, *words):
        done = self.cluster.run("scontrol", *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def wait_for(self, job, what, condition):
        try:
            wait_until(condition, what)
        except AssertionError as error:
            shown = self.cluster.run("scontrol", "show", "job", job).stdout
            raise AssertionError(f"{error}\n{shown}\n{self.log(job)}") from None

    def wait(self, job, expected):
        state = ""

        def ended():
            nonlocal state
            state = self.state(job)
            return state in (expected, "COMPLETED", "FAILED", "CANCELLED")

        self.wait_for(job, expected, ended)
        self.assertEqual(state, expected, self.log(job))

    def wait_for_steps(self, job):
        metrics = self.path("one/run/metrics.jsonl")
        self.wait_for(job, "steps", lambda: os.path.exists(metrics) and os.path.getsize(metrics))

    def checkpoints(self, folder):
        return sorted(glob.glob(self.path(f"{folder}/ckpt/step_*")))

    def last_step(self, folder):
        return int(self.checkpoints(folder)[-1].rsplit("_", 1)[1])

    def metrics(self, folder):
        """The lines of metrics.jsonl without what depends on the clock."""
        lines = [json.loads(line) for line in self.read(f"{folder}/run/metrics.jsonl").splitlines()]
        return [{key: value for key, value in line.items() if key not in ("time", "samples_per_second")}
                for line in lines]

    def expect_as_undisturbed(self, steps):
        """The end of folder "one" is that of a job that nothing disturbs."""
        self.write_config("undisturbed.yaml", steps, "undisturbed")
        self.wait(self.submit("undisturbed.yaml"), "COMPLETED")
        self.assertEqual(self.last_step("one"), steps)
        self.assertEqual(digest(self.checkpoints("one")[-1]), digest(self.checkpoints("undisturbed")[-1]))
        self.assertEqual(self.metrics("one"), self.metrics("undisturbed"))


class Jobs(Slurm):
    def start_endless(self, *arguments, options=()):
        """A job that trains and does not end by itself. Its next leg waits until the partition is up again."""
        self.write_config("config.yaml", ENDLESS, "one")
        job = self.submit("config.yaml", *arguments, options=options)
        self.wait_for_steps(job)
        self.control("update", "PartitionName=low", "State=DOWN")
        return job

    def expect_continued(self, job):
        """The job starts again and ends as one that nothing disturbs."""
        self.wait_for(job, "a first leg that ended", lambda: self.field(job, "Restarts") == "1")
        self.wait(job, "PENDING")
        stopped = self.last_step("one")
        self.write_config("config.yaml", stopped + 20, "one")
        self.control("update", f"JobId={job}", "TimeLimit=10")
        self.control("update", "PartitionName=low", "State=UP")
        self.wait(job, "COMPLETED")
        self.assertIn(f"(step {stopped})", self.log(job))
        self.expect_as_undisturbed(stopped + 20)

    def expect_saved_and_continued(self, job):
        self.expect_continued(job)
        self.assertIn("stopped on request", self.log(job))

    def test_trains_on_two_ranks(self):
        self.write_config("config.yaml", 20, "one")
        job = self.submit("config.yaml")
        self.wait(job, "COMPLETED")
        self.assertIn("2 ranks", self.log(job))
        self.assertEqual(self.last_step("one"), 20)

    def test_the_time_limit_saves_requeues_and_resumes(self):
        # Slurm sends the signal when it looks at the limits, every 30 s.
        job = self.start_endless(options=["--signal=USR1@50"])
        self.control("update", f"JobId={job}", "TimeLimit=1")
        self.expect_saved_and_continued(job)

    def test_a_requeue_saves_and_resumes(self):
        job = self.start_endless()
        self.control("requeue", job)
        self.expect_saved_and_continued(job)

    def test_preemption_saves_and_resumes(self):
        job = self.start_endless()
        self.write_config("urgent.yaml", 20, "urgent")
        self.wait(self.submit("urgent.yaml", options=["--partition=high"]), "COMPLETED")
        self.expect_saved_and_continued(job)

    def test_after_a_failure_of_the_node_the_last_checkpoint_is_resumed(self):
        job = self.start_endless("--set", "checkpoint.every_steps=5")
        self.wait_for(job, "a checkpoint", lambda: self.checkpoints("one"))
        self.control("update", f"NodeName={self.cluster.host}", "State=DOWN", "Reason=test")
        wait_until(lambda: not self.cluster.processes("dlrm-train"), "the ranks have ended")
        self.expect_continued(job)

    def test_a_cancelled_job_saves_and_stays_away(self):
        job = self.start_endless()
        self.cluster.run("scancel", job)
        self.wait(job, "CANCELLED")
        self.cluster.cancel_all()
        self.control("update", "PartitionName=low", "State=UP")
        stopped = self.last_step("one")
        self.write_config("config.yaml", stopped + 20, "one")
        self.wait(self.submit("config.yaml"), "COMPLETED")
        self.assertEqual(self.state(job), "CANCELLED")
        self.expect_as_undisturbed(stopped + 20)

    def test_tasks_of_an_array_have_folders_of_their_own(self):
        self.write_config("config.yaml", 20, "task-${env:SLURM_ARRAY_TASK_ID}")
        job = self.submit("config.yaml", options=["--array=1-3"])
        self.wait(job, "COMPLETED COMPLETED COMPLETED")
        self.assertEqual([self.last_step(f"task-{task}") for task in (1, 2, 3)], [20, 20, 20])

    def test_a_sweep_is_an_array_whose_tasks_end_or_are_requeued(self):
        self.write_config("config.yaml", 20, "unused")
        words = ["env", "DLRM_SWEEP_POLL_SECONDS=0.3", sys.executable, "-m", "dlrm.sweep.command", "config.yaml",
                 "--slurm", "--jobs=2", "--grid", "train.sparse_optimizer.lr=0.01,0.02,-1", "--sbatch=--cpus-per-task=1",
                 "--sbatch=--time=10"]
        done = self.cluster.run(*words, folder=self.folder)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("3 trials in sweeps/config: 2 with results, 1 failed, 0 not finished", done.stdout)
        self.assertRegex(done.stderr, "^sweeps/config/trial_002 failed: error: .*lr is .*-1")

    def test_a_task_of_an_array_is_requeued_alone(self):
        self.write_config("config.yaml", 20, "task-${env:SLURM_ARRAY_TASK_ID}")
        array = self.submit("config.yaml", options=["--array=1-2", "--hold"])
        self.control("release", f"{array}_1")
        self.wait(f"{array}_1", "COMPLETED")
        # The last task of an array has the array's job id.
        self.write_config("config.yaml", ENDLESS, "one")
        self.control("release", f"{array}_2")
        self.wait_for_steps(f"{array}_2")
        self.cluster.run("scancel", "--signal=USR1", f"{array}_2")
        self.wait_for(f"{array}_2", "a second leg", lambda: self.field(f"{array}_2", "Restarts") == "1")
        self.assertEqual(self.field(f"{array}_1", "Restarts"), "0")

    def test_wrong_arguments_fail_at_once_and_later_legs_continue_the_log(self):
        self.write_config("config.yaml", 20, "one")
        job = self.submit("config.yaml", "--set", "train.stepz=3")
        self.wait(job, "FAILED")
        first = self.log(job)
        self.assertRegex(first, "(?m)^error: --set train.stepz=3: unknown key")
        self.assertEqual(self.field(job, "ExitCode"), "2:0")
        self.assertEqual(self.field(job, "Restarts"), "0")
        self.control("requeue", job)
        self.wait_for(job, "a second leg", lambda: self.field(job, "Restarts") == "1")
        self.wait(job, "FAILED")
        self.assertTrue(self.log(job).startswith(first))
        self.assertEqual(self.log(job).count("stepz=3: unknown"), 2)


class Launchers(Slurm):
    def run_script(self, text):
        """The state and the log of a job that runs the lines."""
        with open(self.path("job.sh"), "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n#SBATCH --job-name=dlrm-train\n" + text + "\n")
        job = self.submit(script=self.path("job.sh"))
        self.wait_for(job, "the end", lambda: self.state(job) in ("COMPLETED", "FAILED"))
        return self.state(job), self.log(job)

    def setUp(self):
        super().setUp()
        self.write_config("config.yaml", 5, "one")

    def test_a_batch_script_trains_on_one_rank_without_srun(self):
        state, log = self.run_script("dlrm-train config.yaml")
        self.assertEqual(state, "COMPLETED", log)
        self.assertIn("1 rank,", log)

    def test_a_batch_script_may_use_mpirun(self):
        state, log = self.run_script("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
                                     "mpirun -np $SLURM_NTASKS --bind-to none dlrm-train config.yaml")
        self.assertEqual(state, "COMPLETED", log)
        self.assertIn("2 ranks,", log)

    def test_a_batch_script_may_use_run_sh(self):
        state, log = self.run_script(f"DLRM_TRAIN=$(command -v dlrm-train) {ROOT}/launch/run.sh -np 2 config.yaml")
        self.assertEqual(state, "COMPLETED", log)
        self.assertIn("2 ranks,", log)

    def test_ranks_that_srun_starts_without_pmix_say_so(self):
        state, log = self.run_script("srun --mpi=none dlrm-train config.yaml")
        self.assertEqual(state, "FAILED", log)
        self.assertIn("error: srun started 2 ranks that do not know of one another: try srun --mpi=pmix\n", log)
        self.assertIn("Exited with exit code 2", log)

    def test_a_gpu_job_trains_after_its_preflight(self):
        job = self.submit("config.yaml", options=["--gpus-per-node=2"], script="gpu.sbatch")
        self.wait(job, "COMPLETED")
        self.assertRegex(self.log(job), r"(?s)ok +gpus .*2 ranks, 1 thread each, cuda")

    def test_the_preflight_takes_the_ranks_of_the_job(self):
        state, log = self.run_script(f"DLRM_PREFLIGHT=$(command -v dlrm-preflight) {ROOT}/launch/preflight.sh")
        self.assertEqual(state, "COMPLETED", log)
        self.assertRegex(log, r"ok +ranks +2 on 1 node")


if __name__ == "__main__":
    programs = os.path.abspath(sys.argv.pop(1))
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    Slurm.cluster = Cluster(programs)
    try:
        Slurm.cluster.start()
        unittest.main()
    finally:
        Slurm.cluster.stop()
