"""The trials of a sweep, and how they are run. A trial is a folder trial_NNN of the sweep's folder, with the files of
a run and:

    arguments    what dlrm-train is given, one word a line
    log.txt      what it wrote
    code         its exit code, once it has ended
    results.json its evaluations, by the steps that the trial had ended with
"""
import fcntl
import json
import os
import re
import shutil
import subprocess
import time

from ..endings import Refused
from ..places import RUN, TRIALS_BATCH

STOPPED = 130
START = "== start\n"  # begins each run's part of log.txt


def write(path, text):
    with open(path + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".partial", path)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def read_json(path, default):
    try:
        return json.loads(read(path) or json.dumps(default))
    except ValueError:
        raise Refused(f"{path}: not JSON: remove it to run the trial again") from None


def locked_folder(folder, what):
    """Makes the folder of --output. Until the result is closed, no other `what` may use it."""
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, ".lock"), "w", encoding="utf-8")
    except OSError as error:
        raise Refused(f"--output {folder}: {error.strerror}") from None
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Refused(f"--output {folder}: another {what} runs there") from None
    return lock


class Trial:
    def __init__(self, sweep, number, settings):
        self.number, self.settings = number, settings
        self.folder = os.path.join(sweep, f"trial_{number:03d}")
        self.error = ""
        os.makedirs(self.folder, exist_ok=True)
        self.results = read_json(self.path("results.json"), {})

    def path(self, name):
        return os.path.join(self.folder, name)

    def words(self, options, steps):
        """What dlrm-train is given to reach `steps` (None: the config's)."""
        own = [f"output.directory={self.folder}", f"checkpoint.directory={self.path('ckpt')}"]
        if steps:
            own += [f"train.steps={steps}", "checkpoint.at_end=true", "checkpoint.keep=1"]
        return [options.config, *(word for pair in self.settings for word in ("--set", pair)), *options.extra,
                *(word for pair in own for word in ("--set", pair)), "--resume"]

    def prepare(self, options, steps):
        """Writes the words. The exit code of another run of the trial is removed."""
        words = self.words(options, steps)
        text = "".join(word + "\n" for word in words)
        if read(self.path("arguments")) != text or self.code() != 0:
            write(self.path("arguments"), text)
            if os.path.exists(self.path("code")):
                os.remove(self.path("code"))
        return words

    def code(self):
        """The exit code; None before the end."""
        text = read(self.path("code")).strip()
        return int(text) if text.isdigit() else None

    def collect(self, steps):
        """Takes the results of a trial that has ended."""
        if self.code() == 0:
            summary = read_json(self.path("summary.json"), {})
            self.results[str(steps or "all")] = summary.get("best_eval") or summary.get("eval") or {}
            write(self.path("results.json"), json.dumps(self.results) + "\n")
        elif self.code() not in (None, STOPPED):
            self.error = last_error(read(self.path("log.txt"))) or f"exit code {self.code()}"

    def result(self, steps):
        return self.results.get(str(steps or "all"))


def last_error(log):
    last = log.rpartition(START)[2]
    lines = [line.strip() for line in last.splitlines() if re.search(r"\w", line)]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines or [""])[-1]


def gpu_sets(jobs, ranks):
    """CUDA_VISIBLE_DEVICES of each job, so that trials that run together use different GPUs."""
    if jobs == 1:
        return [None]
    gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    if not gpus and shutil.which("nvidia-smi"):
        shown = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
        gpus = [str(number) for number in range(sum(line.startswith("GPU ") for line in shown.stdout.splitlines()))]
    if not gpus:
        return [None] * jobs
    return [",".join(dict.fromkeys(gpus[(job * ranks + rank) % len(gpus)] for rank in range(ranks)))
            for job in range(jobs)]


class Local:
    """Runs trials on this machine, --jobs at the same time."""

    def __init__(self, options):
        self.options = options
        self.sets = gpu_sets(options.jobs, options.ranks)
        self.environment = dict(os.environ)
        if options.jobs > 1:  # each trial would take all CPUs
            share = max(1, len(os.sched_getaffinity(0)) // (options.jobs * options.ranks))
            self.environment.setdefault("OMP_NUM_THREADS", str(share))

    def check(self, words):
        """Ends the sweep before it starts if the config or a key is wrong."""
        done = subprocess.run([RUN, "-np", "1", *words[:-1], "--plan-only", "--ranks",
                               str(self.options.ranks)], capture_output=True, text=True, check=False)
        if done.returncode == 2:
            raise Refused(last_error(done.stderr).removeprefix("error: "))

    def start(self, words, trial, job):
        environment = dict(self.environment)
        if self.sets[job] is not None:
            environment["CUDA_VISIBLE_DEVICES"] = self.sets[job]
        with open(trial.path("log.txt"), "a", encoding="utf-8") as log:
            log.write(START)
            log.flush()
            # A session of its own: Ctrl-C reaches the trials through this program, once.
            return subprocess.Popen([RUN, "-np", str(self.options.ranks), *words],
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                    start_new_session=True)

    def run(self, trials, steps, stop):
        waiting, running = list(trials), {}
        asked = False
        while running or waiting and not stop:
            for job in range(self.options.jobs):
                if waiting and not stop and job not in running:
                    trial = waiting.pop(0)
                    running[job] = trial, self.start(trial.prepare(self.options, steps), trial, job)
            if stop and not asked:
                asked = True
                for _, process in running.values():
                    process.terminate()
            time.sleep(0.05)
            for job, (trial, process) in list(running.items()):
                code = process.poll()
                if code is not None:
                    code = code if code >= 0 else 128 - code
                    write(trial.path("code"), f"{STOPPED if asked and code in (138, 143) else code}\n")
                    ended(trial, steps)
                    del running[job]


class Slurm:
    """Runs trials as tasks of a job array. Stopping the sweep leaves the array running; the next start waits for it."""

    def __init__(self, options):
        self.options = options
        self.job_file = os.path.join(options.output, "job")
        for program in ("sbatch", "squeue"):
            if not shutil.which(program):
                raise Refused(f"--slurm: there is no {program} on PATH")

    def check(self, words):
        pass  # the program need not be on the machine that submits

    def run(self, trials, steps, stop):
        job = read(self.job_file).strip()
        if not job or not self.runs(job):
            for trial in trials:
                trial.prepare(self.options, steps)
            job = self.submit(trials)
        print(f"waiting for the job array {job}", flush=True)
        while not stop and self.runs(job):
            time.sleep(float(os.environ.get("DLRM_SWEEP_POLL_SECONDS", "5")))
        for trial in trials:
            if trial.code() is not None:
                ended(trial, steps)

    def submit(self, trials):
        numbers = ",".join(str(trial.number) for trial in trials)
        done = subprocess.run(["sbatch", "--parsable", f"--array={numbers}%{self.options.jobs}",
                               f"--ntasks={self.options.ranks}", *self.options.sbatch,
                               TRIALS_BATCH, self.options.output],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(f"sbatch: {last_error(done.stderr)}")
        job = done.stdout.strip().split(";")[0]
        write(self.job_file, job + "\n")
        return job

    def runs(self, job):
        shown = subprocess.run(["squeue", "--noheader", "--jobs", job, "--format=%T"], capture_output=True, text=True,
                               check=False)
        # A controller that does not answer says nothing about the job.
        return bool(shown.stdout.strip()) or shown.returncode != 0 and "Invalid job id" not in shown.stderr


def ended(trial, steps):
    trial.collect(steps)
    found = trial.result(steps)
    text = trial.error or "stopped"
    if found is not None:
        text = ", ".join(f"{name} {found[key]:.5f}" for name, key in (("AUC", "auc"), ("log loss", "log_loss"))
                         if found.get(key) is not None) or "no evaluation"
    print(f"{os.path.basename(trial.folder)} {' '.join(trial.settings)}: {text}", flush=True)
