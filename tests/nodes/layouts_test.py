#!/usr/bin/env python3
"""Ranks of this machine as several nodes (DLRM_RANKS_PER_NODE). layouts_test.py FOLDER/OF/PROGRAMS"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

from checkpoint_digest import digest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS = 4
CONFIG = """model:
  dense_features: 3
  embedding_dim: 8
  bottom_mlp: [509, 8]
  top_mlp: [251, 1]
  tables:
    - {{name: a, rows: 5000}}
    - {{name: b, count: 3, rows: 333, hotness: 3}}
    - {{name: c, rows: 77}}
    - {{name: d, rows: 2000}}
data: {{source: synthetic, synthetic: {{samples: 1501}}}}
train: {{global_batch_size: 250, steps: 9, threads: 1, timeout: 60, wire: {{dense: {wire}}}}}
sharding: {{tables: {{a: row, c: data_parallel, d: column}}}}
routing: {{mode: {routing}}}
checkpoint: {{directory: {folder}/ckpt, at_end: true}}
output: {{directory: {folder}/run}}
device: cpu
"""
LONG_BAGS = """model:
  dense_features: 3
  embedding_dim: 6
  bottom_mlp: [9, 7, 6]
  top_mlp: [5, 1]
  tables: [{{name: long, rows: 1000, hotness: 30}}]
data: {{source: synthetic, synthetic: {{samples: 2250}}}}
train: {{global_batch_size: 250, steps: 9, threads: 1, timeout: 60}}
sharding: {{plan: {folder}/plan.json}}
checkpoint: {{directory: {folder}/ckpt, at_end: true}}
output: {{directory: {folder}/run}}
device: cpu
"""


def row_shards(**nodes):
    shards = [{"table": "long", "rows": [250 * rank, 250 * (rank + 1)], "columns": [0, 6], "rank": rank}
              for rank in range(RANKS)]
    return {"world": RANKS, "shards": shards, **nodes}


class Layouts(unittest.TestCase):
    programs = None

    def train(self, ranks_per_node, text, plan=None, **values):
        """The hash of the last checkpoint, and the bytes between nodes in a step."""
        with tempfile.TemporaryDirectory(prefix="layouts_") as folder:
            config = os.path.join(folder, "config.yaml")
            with open(config, "w", encoding="utf-8") as file:
                file.write(text.format(folder=folder, **values))
            with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as file:
                json.dump(plan, file)
            environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                           "DLRM_RANKS_PER_NODE": str(ranks_per_node)}
            subprocess.run(["mpirun", "--quiet", "--oversubscribe", "--bind-to", "none", "-np", str(RANKS),
                            os.path.join(self.programs, "dlrm-train"), config], env=environment, check=True,
                           capture_output=True, timeout=120)
            with open(os.path.join(folder, "run/summary.json"), encoding="utf-8") as file:
                between_nodes = json.load(file)["plan"]["between_nodes_bytes"]
            return digest(glob.glob(os.path.join(folder, "ckpt/step_*"))[0]), between_nodes

    def test_a_run_has_the_same_bits_on_any_nodes(self):
        for routing, wire in (("exact", "fp32"), ("fixed", "bf16")):
            whole, between_nodes = self.train(RANKS, CONFIG, routing=routing, wire=wire)
            self.assertEqual(between_nodes, 0)
            for ranks_per_node in (3, 2, 1):
                bits, between_nodes = self.train(ranks_per_node, CONFIG, routing=routing, wire=wire)
                self.assertEqual(bits, whole, (routing, wire, ranks_per_node))
                self.assertGreater(between_nodes, 0)

    def test_nodes_that_add_partial_vectors_send_half_as_many(self):
        _, all_vectors = self.train(2, LONG_BAGS, row_shards())
        bits, sums = self.train(2, LONG_BAGS, row_shards(ranks_per_node=2))
        vectors = 2 * 250 * 6 * 4  # of every bag, to one other node, and gradients
        self.assertEqual(all_vectors - sums, vectors)
        # The order of sums is the plan's, wherever the ranks are.
        self.assertEqual(self.train(3, LONG_BAGS, row_shards(ranks_per_node=2))[0], bits)


if __name__ == "__main__":
    Layouts.programs = os.path.abspath(sys.argv.pop(1))
    unittest.main()
