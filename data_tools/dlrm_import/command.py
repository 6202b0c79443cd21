"""The command line of `dlrm-data import`."""
import argparse
import os
import sys
import time

from dlrm_dataset import DatasetError

from .columns import Converter
from .outputs import Outputs, make_encodings
from .pipeline import convert_chunk, run
from .problems import ImportProblem
from .schema import read_schema


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ImportProblem(f"{message} (see dlrm-data import --help)")


def make_parser():
    parser = Parser(prog="dlrm-data import", description="Makes dataset files of CSV and TSV.")
    parser.add_argument("schema", metavar="SCHEMA.yaml", help="names the columns, and what becomes of them")
    parser.add_argument("inputs", metavar="IN", nargs="+", help="files, in order")
    parser.add_argument("--output", metavar="OUT.h5", required=True, help="dataset file to write")
    parser.add_argument("--test-output", metavar="TEST.h5", help="dataset file of the schema's `split`")
    parser.add_argument("--skip-malformed", action="store_true",
                        help="skip and count malformed records instead of ending with an error")
    parser.add_argument("--threads", metavar="N", type=int, default=0,
                        help="number of threads, by default one per CPU; the output does not depend on it")
    return parser


def check_paths(options, schema):
    if (schema.split is None) != (options.test_output is None):
        raise ImportProblem("--test-output is for the test set of a `split` in the schema: both or neither")
    if not 0 <= options.threads <= 1024:
        raise ImportProblem(f"--threads {options.threads}; expected 1 to 1024")
    seen = [options.schema]
    for path in options.inputs + [options.output, options.test_output]:
        if path is None:
            continue
        if path not in options.inputs and os.path.realpath(path) in map(os.path.realpath, seen):
            raise ImportProblem(f"{path} is named twice")
        seen.append(path)
    for path in options.inputs:
        if not os.path.exists(path):
            raise ImportProblem(f"{path}: no such file")
        if os.path.isdir(path):
            raise ImportProblem(f"{path}: is a folder, not a file")


def run_import(options):
    start = time.monotonic()
    schema = read_schema(options.schema)
    check_paths(options, schema)
    threads = options.threads or len(os.sched_getaffinity(0))
    converter = Converter(schema)
    encodings = make_encodings(schema, {}, False)
    outputs = Outputs(schema, encodings, options.output, options.test_output)
    try:
        totals = run(schema, options.inputs, threads,
                     lambda chunk: convert_chunk(chunk, converter, options.skip_malformed), outputs.append)
        if totals.records == 0:
            raise ImportProblem(f"{options.inputs[0]}: no record is well-formed")
        counts = outputs.finish()
    finally:
        outputs.close()
    report(options, encodings, totals, counts, time.monotonic() - start)


def report(options, encodings, totals, counts, seconds):
    print(f"{options.output}: {counts[0]} rows")
    if options.test_output:
        print(f"{options.test_output}: {counts[1]} rows")
    if options.skip_malformed:
        print(f"malformed records skipped: {totals.skipped}")
    rows = " ".join(f"{name} {encoding.rows or 'as they are'}" for name, encoding in encodings.items())
    print(f"table rows: {rows}")
    print(f"{totals.bytes * 1e-6:.1f} MB in {seconds:.2f} s, {totals.bytes * 1e-6 / seconds:.0f} MB/s")


def main(arguments):
    try:
        run_import(make_parser().parse_args(arguments))
    except DatasetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
