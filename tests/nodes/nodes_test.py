#!/usr/bin/env python3
"""Ranks on several hosts, which are namespaces that the test makes. nodes_test.py FOLDER/OF/PROGRAMS"""
import glob
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from network import Network, run_apart, why_not

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIMEOUT = 10  # train.timeout
CONFIG = """model:
  dense_features: 3
  embedding_dim: 8
  bottom_mlp: [509, 8]
  top_mlp: [1021, 251, 1]
  tables:
    - {{name: a, rows: 5000}}
    - {{name: b, count: 2, rows: 300, hotness: 3}}
    - {{name: c, rows: 2003, dim: 8}}
data: {{source: synthetic, synthetic: {{samples: 100000}}}}
train: {{global_batch_size: 510, steps: {steps}, threads: 1, timeout: {timeout}}}
sharding: {sharding}
checkpoint: {{directory: "{folder}/ckpt"}}
output: {{directory: "{folder}", metrics_every: 1}}
device: cpu
"""


def dense_parameters():
    features = 4
    interactions = 8 + (features + 1) * features // 2
    widths = [(3, 509), (509, 8), (interactions, 1021), (1021, 251), (251, 1)]
    return sum(a * b + b for a, b in widths)


class Nodes(unittest.TestCase):
    programs = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="nodes_runs_")
        self.addCleanup(shutil.rmtree, self.folder)

    def network(self, hosts):
        network = Network(hosts)
        self.addCleanup(network.stop)
        return network

    def write_config(self, name, steps, sharding="{tables: {a: row, c: data_parallel}}"):
        config = os.path.join(self.folder, f"{name}.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(steps=steps, timeout=TIMEOUT, folder=os.path.join(self.folder, name), sharding=sharding))
        return config

    def losses(self, name):
        with open(os.path.join(self.folder, name, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [line["loss"] for line in lines if "loss" in line]

    def start(self, network, name, steps, ranks_per_host, **config):
        """run.sh on the first host."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("DLRM_", "OMPI_"))}
        environment.update(DLRM_TRAIN=os.path.join(self.programs, "dlrm-train"), OMP_WAIT_POLICY="passive",
                           MPIRUN_OPTIONS=network.mpirun_options(ranks_per_host))
        ranks = len(network.hosts) * ranks_per_host
        return subprocess.Popen(
            network.hosts[0].command(os.path.join(ROOT, "launch/run.sh"), "-np", str(ranks),
                                     self.write_config(name, steps, **config)),
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def train(self, network, name, steps, ranks_per_host, **config):
        job = self.start(network, name, steps, ranks_per_host, **config)
        output, _ = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, output)
        network.wait_until_empty()
        return self.losses(name)

    def losses_of_one_rank(self, steps):
        subprocess.run([os.path.join(self.programs, "dlrm-train"), self.write_config("one", steps)], check=True,
                       capture_output=True, timeout=120)
        return self.losses("one")

    def expect_equal(self, losses, expected):
        self.assertEqual(len(losses), len(expected))
        for step, (loss, of_one) in enumerate(zip(losses, expected), 1):
            self.assertTrue(math.isclose(loss, of_one, rel_tol=1e-5), f"step {step}: {loss}, not {of_one}")

    def test_two_hosts_of_two_ranks_train_as_one_rank_also_on_slow_links(self):
        network = self.network(2)
        losses = self.train(network, "two", 12, 2)
        self.expect_equal(losses, self.losses_of_one_rank(12))
        # With one plan, sums have the same bits however ranks are placed.
        plan = f'{{plan: "{os.path.join(self.folder, "two", "plan.json")}"}}'
        self.assertEqual(self.train(self.network(1), "whole", 12, 4, sharding=plan), losses)
        network.throttle(network.hosts[1], "200mbit")
        self.assertEqual(self.train(network, "slow", 12, 2), losses)

    def test_four_hosts_of_one_rank_train_as_one_rank(self):
        self.expect_equal(self.train(self.network(4), "four", 12, 1), self.losses_of_one_rank(12))

    def test_a_host_sends_each_dense_gradient_once(self):
        network = self.network(2)
        sent = []
        for steps in (5, 25):
            before = [host.sent_bytes() for host in network.hosts]
            self.train(network, f"steps{steps}", steps, 2)
            sent.append([host.sent_bytes() - b for host, b in zip(network.hosts, before)])
        per_step = [(last - first) / 20 for first, last in zip(*sent)]
        least = 4 * dense_parameters()
        for of_host in per_step:
            self.assertGreater(of_host, least)
            # Ids, pooled vectors, their gradients, and headers come on top.
            self.assertLess(of_host, 1.15 * least)
        with open(os.path.join(self.folder, "steps25/summary.json"), encoding="utf-8") as file:
            counted = json.load(file)["plan"]["between_nodes_bytes"]
        self.assertLess(counted, sum(per_step))
        self.assertGreater(counted, 0.9 * sum(per_step))  # headers are not counted

    def start_endless(self, network, ranks_per_host):
        """Returns after the first steps."""
        job = self.start(network, "endless", 100000000, ranks_per_host)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.kill)
        metrics = os.path.join(self.folder, "endless/metrics.jsonl")
        deadline = time.monotonic() + 60
        while not os.path.exists(metrics) or os.path.getsize(metrics) < 500:
            self.assertIsNone(job.poll(), "the job has ended")
            self.assertLess(time.monotonic(), deadline, "no steps")
            time.sleep(0.1)
        return job

    def expect_end(self, network, job, host):
        """All ends in time, and the last line names the host."""
        output, _ = job.communicate(timeout=TIMEOUT + 15)
        self.assertEqual(job.returncode, 3, output)
        self.assertEqual(output.splitlines()[-1], f"error: the connection to {host.name} is lost: the host or its "
                                                  "link is down")
        network.wait_until_empty(TIMEOUT + 15)

    def test_a_host_whose_link_goes_down_is_named_and_all_ends(self):
        network = self.network(2)
        job = self.start_endless(network, 2)
        network.drop_link(network.hosts[1])
        self.expect_end(network, job, network.hosts[1])

    def test_a_host_that_dies_is_named_and_all_ends(self):
        network = self.network(4)
        job = self.start_endless(network, 1)
        network.hosts[2].stop()
        self.expect_end(network, job, network.hosts[2])

    def test_a_request_to_stop_reaches_all_hosts(self):
        network = self.network(2)
        job = self.start_endless(network, 1)
        job.terminate()
        output, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 130, output)
        self.assertRegex(output.splitlines()[-1], r"stopped on request at step \d+; --resume continues$")
        self.assertEqual(len(glob.glob(os.path.join(self.folder, "endless/ckpt/step_*"))), 1)
        network.wait_until_empty()


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    run_apart()
    Nodes.programs = os.path.abspath(sys.argv.pop(1))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unittest.main()
