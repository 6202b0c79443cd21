"""What the tests of models that dlrm-infer serves share."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

from import_fixture import Importing


class Serving(Importing):
    data = train = infer = ""  # the programs

    def run_program(self, *command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300, env={
            "OMP_NUM_THREADS": "1", **os.environ, "DLRM_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 0, done.stderr)

    def trained(self, schema, data, *options, steps=1, checkpoints="ckpt"):
        """Imports the data, and trains a model for a few steps."""
        self.write("schema.yaml", schema)
        self.run_program(self.data, "import", "schema.yaml", data, "--output", "train.h5", "--write-config", "model.yaml", *options)
        self.run_program(self.train, "model.yaml", "--set", f"train.steps={steps}", "--set", "train.global_batch_size=32", "--set",
                         f"train.seed={steps}", "--set", f"checkpoint.directory={checkpoints}")

    @contextlib.contextmanager
    def server(self, *options, checkpoint="ckpt"):
        """Yields the server's URL."""
        served = subprocess.Popen([self.infer, checkpoint, "--port", "0", *options], cwd=self.folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            yield served.stdout.readline().split()[-1]
        finally:
            served.send_signal(signal.SIGTERM)
            served.wait()
            served.stdout.close()

    def ask(self, url, body):
        """Status and answer."""
        try:
            with urllib.request.urlopen(url, json.dumps(body).encode()) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


def take_programs():
    """Takes DLRM_DATA DLRM_TRAIN DLRM_INFER from the command line."""
    Serving.data, Serving.train, Serving.infer = (os.path.abspath(path) for path in sys.argv[1:4])
    del sys.argv[1:4]
