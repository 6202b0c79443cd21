#!/usr/bin/env python3
"""Runs a harness of tests/fuzz on the inputs that once failed, on its seeds, and then on what libFuzzer makes of them.

    tests/fuzz/fuzz.py build/fuzz/bin/fuzz_NAME [--seconds N | --runs N] [--seed S]

Without a limit it ends after 30 seconds. An input that fails is kept beside the program and named. Move it to tests/fuzz/found/NAME."""
import argparse
import ctypes
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LONGEST = 2048  # bytes of an input
NUMBERS = ["0", "-1", "1e400", "nan", "4294967296", "9223372036854775807", "-9223372036854775808",
           "18446744073709551615", "281474976710656", "0x1p60"]


def seeds(name, folder):
    """Copies the seeds of a harness to a folder. Returns their texts."""
    paths = glob.glob(os.path.join(HERE, "seeds", name, "*")) + glob.glob(os.path.join(HERE, "found", name, "*"))
    if name == "config":
        paths += [os.path.join(ROOT, "configs", path) for path in ("quickstart.yaml", "synthetic/tiny.yaml",
                                                                    "dle_4b.yaml", "bench/lookup.yaml")]
    texts = []
    for number, path in enumerate(sorted(paths)):
        shutil.copy(path, os.path.join(folder, f"{number}_{os.path.basename(path)}"))
        with open(path, "rb") as file:
            texts.append(file.read())
    if name == "criteo":
        packed = [gzip.compress(text, mtime=0) for text in texts]
        for number, data in enumerate(packed + [b"".join(packed) + bytes(5), packed[0][:-3]]):
            with open(os.path.join(folder, f"{number}.gz"), "wb") as file:
                file.write(data)
    return texts


def fix_addresses():
    """libFuzzer's choices depend on the addresses of code. Where the call is refused, they stay random."""
    no_randomize = 0x0040000  # ADDR_NO_RANDOMIZE of <sys/personality.h>
    ctypes.CDLL(None).personality(no_randomize)


def write_dictionary(texts, path):
    words = {word for text in texts for word in re.findall(r"[A-Za-z_]{3,20}", text.decode(errors="ignore"))}
    with open(path, "w", encoding="utf-8") as file:
        for word in sorted(words)[:1000] + NUMBERS:
            file.write(f'"{word}"\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--seconds", type=int, default=30)
    limit.add_argument("--runs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    name = os.path.basename(given.program).removeprefix("fuzz_")
    program = os.path.abspath(given.program)
    # Harnesses write their files where they are started: in memory, if that is possible.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        corpus, dictionary = os.path.join(scratch, "corpus"), os.path.join(scratch, "dictionary")
        os.mkdir(corpus)
        write_dictionary(seeds(name, corpus), dictionary)
        # A number of runs gives the same inputs each time: reloading the corpus depends on the time.
        bound = [f"-runs={given.runs}", "-reload=0"] if given.runs else [f"-max_total_time={given.seconds}"]
        done = subprocess.run(
            [program, *bound, f"-seed={given.seed}", f"-max_len={LONGEST}", f"-dict={dictionary}", "-timeout=20",
             "-rss_limit_mb=2048", f"-artifact_prefix={program}.", "-print_final_stats=1", "-verbosity=0", corpus],
            env={**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1",
                 "ASAN_OPTIONS": "malloc_context_size=3"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=scratch, text=True, errors="replace", check=False,
            preexec_fn=fix_addresses)
    counts = dict(re.findall(r"stat::(\w+): +(\d+)", done.stdout))
    if done.returncode != 0 or not counts:
        print(done.stdout[-20000:])
        sys.exit(f"fuzz_{name}: ended with {done.returncode}")
    print(f"fuzz_{name}: {counts['number_of_executed_units']} executions, "
          f"{counts['average_exec_per_sec']} a second, no finding")


if __name__ == "__main__":
    main()
