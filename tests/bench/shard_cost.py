#!/usr/bin/env python3
"""Core time of the embeddings' functions per shard and step, from samples of a whole job.

  perf record -F 299 -o perf.data mpirun -np 32 ... dlrm-train CONFIG --set train.steps=60
  tests/bench/shard_cost.py perf.data --frequency 299 --steps 60 --shards 32000

`--shards` counts the shards of all ranks. Waiting for other ranks and the dense layers are left out.
"""
import argparse
import re
import subprocess

EMBEDDING = re.compile(
    r"dlrm::.*(Router|IdBuckets|Pooling|PooledLayout|PooledBuffers|ResidentRows|GroupAssembly|OwnerSide|"
    r"RequesterSide|BagLookup|add_lookups|"
    r"list_gradients|ShardUpdates|UpdateShards|GroupShardRows|SegmentBuffers|ShardedEmbeddings|Staging|"
    r"head_of|locate_groups|group_header|message_bytes|open_message|begin_message|GroupCursor|"
    r"read_bags|read_coded|read_samples|write_samples|write_bags|write_lengths|list_non_empty|"
    r"scan_offsets|scan_feature|check_and_copy|pool_bags|fetch_bags|fetch_runs|update_runs|update_share|"
    r"sum_chunk|sort_rows|write_and_count|cut_runs|copy_rows|EmbeddingBag|CopyBlocks)")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data")
    options.add_argument("--frequency", type=float, required=True, help="samples per second of perf record")
    options.add_argument("--steps", type=int, required=True)
    options.add_argument("--shards", type=int, required=True)
    options = options.parse_args()
    report = subprocess.run(["perf", "report", "-i", options.data, "--no-children", "--stdio", "-F", "sample,dso,sym"],
                            capture_output=True, text=True, check=True).stdout
    microseconds = 1e6 / options.frequency / options.steps / options.shards
    costs = []
    for line in report.splitlines():
        found = re.match(r"\s*(\d+)\s+\S+\s+\[.\]\s+(.*)", line)
        if found and EMBEDDING.search(found[2]):
            costs.append((int(found[1]) * microseconds, found[2].strip()))
    for cost, function in costs[:20]:
        print(f"{cost:8.3f}  {function[:90]}")
    print(f"{sum(cost for cost, _ in costs):8.3f}  microseconds a shard and step")


if __name__ == "__main__":
    main()
