#!/usr/bin/env python3
"""What a core imports in a second: `dlrm-data import` of a log as CSV, JSON lines and Parquet, and pyarrow alone.

    import_rates.py [--program PATH/TO/dlrm-data] [--megabytes 160] [--folder DIR] [--narrow]

Without --program it is the import without its library. CPU time of the whole program, start and end included, with
--threads 1. --narrow: records of 20 short fields, instead of 9 with texts as long as in real logs. log.plain.parquet
has neither dictionaries nor compression. Run it with
build/venv/bin/python3, which launch/install_deps.sh python makes."""
import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = """
label: click
dense: [age, {column: price, log: true}, {column: duration, log: true}]
sparse: [user, {column: page, hash: 100000}, agent, {column: referrer, hash: 10000}, {column: tags, list: {LIST}}]
"""
NARROW = """
label: click
dense: [d0, d1, d2, d3, {column: d4, log: true}, {column: d5, log: true}, d6, d7]
sparse: [c0, c1, c2, c3, c4, {column: c5, hash: 100000}, {column: c6, hash: 100000}, c7, c8, c9]
"""
ALONE = """
import sys, pyarrow.csv, pyarrow.json, pyarrow.parquet
path = sys.argv[1]
if path.endswith("csv"):
    rows = sum(b.num_rows for b in pyarrow.csv.open_csv(path, pyarrow.csv.ReadOptions(use_threads=False)))
elif path.endswith("json"):
    rows = pyarrow.json.read_json(path, pyarrow.json.ReadOptions(use_threads=False)).num_rows
else:
    rows = sum(b.num_rows for b in pyarrow.parquet.ParquetFile(path).iter_batches(32768, use_threads=False))
"""


def long_records(r, count):
    users = [hashlib.md5(str(i).encode()).hexdigest() for i in (50000 * r.random(count)**2).astype(int)]
    for user, page, agent, query, age, price, tags in zip(
            users, (20000 * r.random(count)**3).astype(int), r.integers(0, 40, count), r.integers(0, 500, count),
            r.integers(18, 90, count), r.random(count) * 100, r.integers(0, 4, count)):
        yield {"click": int(agent) % 2, "user": user, "age": int(age), "price": round(float(price), 2),
               "page": f"https://www.example.com/shop/category-{page % 37}/item-{page}?ref={page % 7}",
               "agent": f"Mozilla/5.0 (X11; Linux x86_64; rv:{agent}.0) Gecko/20100101 Firefox/{agent}.0",
               "referrer": f"https://search.example.org/results?q=word{query}",
               "duration": round(float(price) / 7, 3), "tags": ["red", "green", "blue"][:tags]}


def narrow_records(r, count):
    values = [10, 100, 1000, 10000, 100000, 100000, 1000000, 50, 500, 5000]
    sparse = [(most * r.random(count)**3).astype(int).tolist() for most in values]
    whole, real = r.integers(0, 1000, (count, 4)).tolist(), (r.random((count, 4)) * 100).tolist()
    for i in range(count):
        yield {"click": i % 2, **{f"d{k}": whole[i][k] for k in range(4)},
               **{f"d{k + 4}": round(real[i][k], 4) for k in range(4)},
               **{f"c{k}": f"v{sparse[k][i]:07x}" for k in range(10)}}


def write_logs(folder, records, megabytes):
    """The paths of the same records in each format."""
    import pyarrow
    import pyarrow.parquet
    r = np.random.default_rng(1)
    paths = [os.path.join(folder, f"log.{kind}") for kind in ("csv", "json", "parquet", "plain.parquet")]
    tables = []
    with open(paths[0], "w", encoding="utf-8") as csv, open(paths[1], "w", encoding="utf-8") as lines:
        while csv.tell() < megabytes * 1e6:
            rows = list(records(r, 50000))
            if not tables:
                csv.write(",".join(rows[0]) + "\n")
            csv.write("".join(",".join("|".join(v) if isinstance(v, list) else str(v) for v in row.values()) + "\n"
                              for row in rows))
            lines.write("".join(json.dumps(row) + "\n" for row in rows))
            part = pyarrow.Table.from_pylist(rows)
            if not tables:
                tables = [pyarrow.parquet.ParquetWriter(paths[2], part.schema),
                          pyarrow.parquet.ParquetWriter(paths[3], part.schema, compression="none",
                                                        use_dictionary=False)]
            for table in tables:
                table.write_table(part)
    for table in tables:
        table.close()
    return paths


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={
        **os.environ, "DLRM_PYTHON": sys.executable})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program")
    parser.add_argument("--megabytes", type=int, default=160)
    parser.add_argument("--folder")
    parser.add_argument("--narrow", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = write_logs(folder, narrow_records if options.narrow else long_records, options.megabytes)
        schema = os.path.join(folder, "schema.yaml")
        print(f"{'':18}{'MB':>8}{'import: s':>12}{'MB/s':>8}{'pyarrow alone: s':>20}{'MB/s':>8}")
        for path in paths:
            bag = "separator: '|'" if path.endswith("csv") else "cap: 50"
            with open(schema, "w", encoding="utf-8") as file:
                file.write(NARROW if options.narrow else LONG.replace("LIST", bag))
            program = [sys.executable, "-m", "dlrm.importing"]
            if options.program:
                program = [options.program, "import"]
            program += [schema, path, "--threads", "1", "--output", os.path.join(folder, "out.h5")]
            seconds = min(cpu_seconds(program) for _ in range(3))
            alone = min(cpu_seconds([sys.executable, "-c", ALONE, path]) for _ in range(3))
            size = os.path.getsize(path) * 1e-6
            print(f"{os.path.basename(path):18}{size:8.1f}{seconds:12.2f}{size / seconds:8.0f}{alone:20.2f}"
                  f"{size / alone:8.0f}")


if __name__ == "__main__":
    main()
