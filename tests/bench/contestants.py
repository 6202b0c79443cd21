"""dlrm-train and its peer in PyTorch as compare.py runs them: each gives samples per second of its training loop."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SAMPLES = {"kaggle": 1 << 20, "lookup": 1 << 16, "dle": 1 << 19}  # of the datasets: 60 to 200 MB


def plain_environment():
    """As a user's shell has it: no thread settings."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "OPENBLAS_", "KMP_"))}


def run(command, **options):
    done = subprocess.run(command, env=plain_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def train(programs, config, settings, before=()):
    """The summary of a run of dlrm-train that keeps nothing. `before`: words that start it, such as mpirun's."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {**settings, "eval.at_end": "false", "output.directory": folder,
                    "checkpoint.directory": os.path.join(folder, "checkpoints"), "output.metrics_every": 1 << 30}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        run([*before, os.path.join(programs, "dlrm-train"), config, *sets])
        with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
            return json.load(file)


class Ours:
    """dlrm-train on a dataset file, or on its own synthetic source, whose workers draw samples during training."""

    def __init__(self, programs, data_folder):
        self.programs, self.data_folder = programs, data_folder
        os.makedirs(data_folder, exist_ok=True)

    def limits(self, seconds):
        return json.loads(run([os.path.join(self.programs, "dlrm-bench"), "limits", "--seconds", str(seconds)]))

    def dataset(self, model, config):
        path = os.path.join(self.data_folder, f"{model}-{SAMPLES[model]}.h5")
        if not os.path.exists(path):
            run([os.path.join(self.programs, "dlrm-data"), "synth", "--config", config, "--alpha", "0", "--samples",
                 str(SAMPLES[model]), "--output", path])
        with open(path, "rb") as file:  # into the page cache
            while file.read(1 << 24):
                pass
        return path

    def train(self, row, config, source, steps):
        before = []
        if row.ranks > 1:
            before = ["mpirun", "-np", str(row.ranks), "--bind-to", "none", "--oversubscribe"]
            if os.geteuid() == 0:
                before.append("--allow-run-as-root")
        settings = {"train.steps": steps, "train.global_batch_size": row.batch, "train.precision": row.precision,
                    "data.source": source}
        if source == "hdf5":
            settings["data.train"] = self.dataset(row.model, config)
        return train(self.programs, config, settings, before)


class Peer:
    """A process of pytorch_dlrm.py that holds one model and measures on request.

    Its OpenMP threads sleep while they wait: by default they spin and compete with OpenBLAS' own threads, which
    made two threads six times slower at batch 8.
    """

    def __init__(self, config):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "pytorch_dlrm.py"), config, "--serve"],
            env={**plain_environment(), "OMP_WAIT_POLICY": "passive"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.answer()["torch"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"pytorch_dlrm.py ended with {self.process.wait()}")
        return json.loads(line)

    def measure(self, batch, threads, seconds):
        request = {"batch": batch, "threads": threads, "seconds": seconds}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()["samples_per_second"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
