#!/usr/bin/env python3
"""`dlrm-data import` on damaged files: each ends with a dataset or with one clear line, and what is skipped is
counted. import_fuzz_test.py [--inputs N] [--seed S]; DLRM_IMPORT_INPUTS=N does the same under ctest."""
import contextlib
import gzip
import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest

from import_fixture import ABSENT, Dataset, Importing, main

SCHEMA = """
label: y
dense: [{column: a, fill: 1, log: true}, {column: b, clip: [0, 9], fill: 0}]
sparse:
  - u
  - {column: i, integers: 1000}
  - {column: h, hash: 50, values: hex}
  - {column: t, list: {separator: "|", cap: 3}}
  - {column: a, name: again, dictionary: {threshold: 2}}
"""
PIECES = [b'"', b"\n", b"\r", b"\0", b",", b"\t", b"\xff\xfe", b"{", b"]", b"[", b"null", b"NaN", b"1e999", b"-", b"\xef\xbb\xbf",
          b"99999999999999999999", b"\\ud800", b"[[[[", b"", b"  ", b"true", b'""', b"|", b"||||||||", b"y", b"\xf0\x9f\x98\x80"]


def seeds():
    """Good files by their names' endings."""
    import pyarrow
    import pyarrow.parquet
    r = random.Random(1)
    rows = [{"y": r.randrange(2), "a": round(r.random() * 9, 3), "b": r.randrange(12), "u": f"u{r.randrange(9)}",
             "i": r.randrange(1000), "h": f"{r.randrange(1 << 32):x}", "t": "|".join("pqrs"[:r.randrange(5)])}
            for _ in range(40)]
    csv = ",".join(rows[0]) + "\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows)
    lines = "".join(json.dumps({**row, "t": list(filter(None, row["t"].split("|")))}) + "\n" for row in rows)
    result = {"csv": csv.encode(), "tsv": csv.replace(",", "\t").encode(), "json": lines.encode()}
    result["json.gz"], result["csv.gz"] = gzip.compress(result["json"]), gzip.compress(result["csv"])
    result["csv.zst"] = pyarrow.Codec("zstd").compress(result["csv"], asbytes=True)
    for compression in ("none", "snappy"):
        sink = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink, compression=compression, row_group_size=25)
        result[compression + ".parquet"] = sink.getvalue()
    return result


def damaged(data, r):
    data = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 5, 20))):
        at = r.randrange(len(data) + 1)
        what = r.randrange(6)
        if what == 0:
            data[at:at + 1] = bytes([r.randrange(256)])
        elif what == 1:
            data[at:at] = r.choice(PIECES)
        elif what == 2:
            del data[at:at + r.choice((1, 3, 50))]
        elif what == 3:
            other = r.randrange(len(data) + 1)
            data[at:at] = data[other:other + r.randrange(60)]
        elif what == 4 and r.random() < 0.2:
            del data[at:]
        elif at < len(data):
            data[at] ^= 1 << r.randrange(8)
    return bytes(data)


def captured(function):
    """What it returns, and what it and its child process write."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = function()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    return code, *texts


def attempt(folder, name, data, skip):
    """What is wrong with how an import of this file ended, or None."""
    from dlrm.importing.command import main as command
    from dlrm.importing.guard import guarded
    path, output = os.path.join(folder, "x." + name), os.path.join(folder, "out.h5")
    with open(path, "wb") as file:
        file.write(data)
    if os.path.exists(output):
        os.unlink(output)
    options = ["--skip-malformed"] if skip else []
    arguments = [os.path.join(folder, "s.yaml"), path, "--output", output, "--threads", "1", *options]
    code, out, err = captured(lambda: guarded(lambda: command(arguments)))
    if code == 2:
        said = err
        wrong = not said.startswith("error: ") or said.count("\n") != 1 or os.path.exists(output)
        return f"code 2, {said!r}" if wrong else None
    if code != 0 or not all(line.startswith("warning: ") for line in err.splitlines()):
        return f"code {code}, {err!r}"
    batch = Dataset(output)[:]
    return None if f"out.h5: {len(batch.label)} rows" in out else out


def work(queue, first, step, count, seed):
    """Every step-th input. Says which it begins, so that a crash is known."""
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "s.yaml"), "w", encoding="utf-8") as file:
        file.write(SCHEMA)
    good = list(seeds().items())
    good_codes = 0
    for number in range(first, count, step):
        r = random.Random(f"{seed} {number}")
        name, data = r.choice(good)
        data = damaged(data, r)
        queue.put(("begun", first, number))
        try:
            problem = attempt(folder, name, data, number % 2 == 0)
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            keep = f"import-{seed}-{number}.{name}"
            with open(keep, "wb") as file:
                file.write(data)
            queue.put(("wrong", first, f"input {number} of seed {seed}, kept as {keep}: {problem}"))
        good_codes += os.path.exists(os.path.join(folder, "out.h5"))
    shutil.rmtree(folder)
    queue.put(("ended", first, good_codes))


@unittest.skipIf(ABSENT, ABSENT)
class Damaged(Importing):
    def test_files_end_with_a_dataset_or_with_a_clear_line(self):
        queue = multiprocessing.SimpleQueue()
        step = max(1, min(4, len(os.sched_getaffinity(0))))
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=work, args=(queue, first, step, INPUTS, SEED)) for first in range(step)]
        self.addCleanup(lambda: [worker.kill() for worker in workers])
        for worker in workers:
            worker.start()
        begun, problems, ended, whole = {}, [], set(), 0
        while len(ended) < step:
            if not queue.empty():
                what, first, value = queue.get()
                if what == "begun":
                    begun[first] = value
                elif what == "wrong":
                    problems.append(value)
                else:
                    ended.add(first)
                    whole += value
                continue
            for first, worker in enumerate(workers):
                worker.join(0.05)
                if worker.exitcode not in (None, 0) and first not in ended:
                    problems.append(f"input {begun.get(first)} of seed {SEED}: ended with {worker.exitcode}")
                    ended.add(first)
        self.assertEqual(problems, [])
        self.assertGreater(whole, INPUTS // 10)  # the damage is not always in the way
        self.assertLess(whole, INPUTS)


@unittest.skipIf(ABSENT, ABSENT)
class Guard(Importing):
    def guarded(self, function):
        from dlrm.importing.guard import guarded
        return captured(lambda: guarded(function))

    def test_names_the_file_that_a_crash_was_in(self):
        def crash():
            from dlrm.importing.guard import now_reading
            now_reading("logs/x.json")
            os.kill(os.getpid(), signal.SIGSEGV)
        self.assertEqual(self.guarded(crash), (2, "", "error: logs/x.json: the process that read it ended by SIGSEGV: "
                                                      "the file is damaged\n"))

    def test_passes_on_what_ends_it(self):
        self.assertEqual(self.guarded(lambda: 7), (7, "", ""))
        end = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
        end.start()
        self.assertEqual(self.guarded(lambda: time.sleep(60)), (128 + signal.SIGTERM, "", ""))


def option(name, default):
    if name in sys.argv:
        at = sys.argv.index(name)
        value = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
        return value
    return default


if __name__ == "__main__":
    INPUTS = option("--inputs", int(os.environ.get("DLRM_IMPORT_INPUTS", 200)))
    SEED = option("--seed", 1)
    main()
