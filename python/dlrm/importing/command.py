"""The command line of `dlrm-data import`."""
import argparse
import os
import sys
import time

import numpy as np

from ..dataset import write_config
from ..dataset.files import Lock, write_text
from ..dataset.values import DatasetError, WriteError
from ..endings import Parser, exit_code

from .columns import Converter
from .infer import schema_text
from .outputs import Outputs, make_encodings
from .pipeline import convert_chunk, run
from .problems import ImportProblem
from .scales import Moments
from .schema import read_schema
from .sources import Unchanged, kind_by_name, open_columns, survey
from .state import State, check_frozen, load_state, save_state

PLACES = ("train", "test", "valid")


def make_parser():
    parser = Parser(prog="dlrm-data import", description="Makes dataset files of CSV, TSV, Parquet and JSON lines.")
    parser.add_argument("schema", metavar="SCHEMA.yaml", help="names the columns, and what becomes of them")
    parser.add_argument("inputs", metavar="IN", nargs="+", help="files, in order; gzip and zstd are recognised")
    parser.add_argument("--infer", action="store_true",
                        help="write SCHEMA.yaml by the first records of the first file, and end")
    parser.add_argument("--output", metavar="OUT.h5", help="dataset file to write")
    parser.add_argument("--test-output", metavar="TEST.h5", help="dataset file of the schema's `split`")
    parser.add_argument("--write-config", metavar="CONFIG.yaml", help="write a training config that fits the result")
    parser.add_argument("--data", metavar="PLACE=FILE.h5", type=place_of_data, action="append", default=[],
                        help="a dataset of another import that the config names as data.PLACE: train, valid or test. "
                        "--output takes the first place that is left of train, test and valid")
    parser.add_argument("--dictionary", metavar="D.json",
                        help="dictionaries, and means of columns. The file is read if it exists, extended and written, "
                        "so that further data gets the same ids")
    parser.add_argument("--frozen-dictionary", action="store_true",
                        help="do not change the dictionaries: new values get id 0")
    parser.add_argument("--skip-malformed", action="store_true",
                        help="skip and count malformed records instead of ending with an error")
    parser.add_argument("--unlabelled", action="store_true",
                        help="records without a label, to predict: every label is 0, whatever the schema names")
    parser.add_argument("--threads", metavar="N", type=int, default=0,
                        help="number of threads, by default one per CPU; the output does not depend on it")
    return parser


def place_of_data(text):
    place, _, path = text.partition("=")
    if place not in PLACES or not path:
        raise argparse.ArgumentTypeError(f"{text}: expected train=FILE.h5, valid=FILE.h5 or test=FILE.h5")
    return place, path


def config_data(options):
    """The files of the config by their places."""
    data = dict(options.data)
    if options.test_output is not None:
        data.setdefault("test", options.test_output)
    left = [place for place in PLACES if place not in data]
    if len(data) < len(options.data) + (options.test_output is not None) or not left:
        raise ImportProblem("--data: each of train, valid and test is one file, and --output is one of them")
    return {**data, left[0]: options.output}


def check_inputs(options):
    for path in options.inputs:
        if not os.path.exists(path):
            raise ImportProblem(f"{path}: no such file")
        if not os.path.isfile(path):
            raise ImportProblem(f"{path}: is no regular file")


def check_options(options, schema):
    if options.output is None:
        raise ImportProblem("--output OUT.h5 is missing")
    if (schema.split is None) != (options.test_output is None):
        raise ImportProblem("--test-output is for the test set of a `split` in the schema: both or neither")
    if not 0 <= options.threads <= 1024:
        raise ImportProblem(f"--threads {options.threads}; expected 1 to 1024")
    if options.frozen_dictionary and (options.dictionary is None or not os.path.exists(options.dictionary)):
        raise ImportProblem("--frozen-dictionary needs --dictionary D.json, of a file that exists")
    if options.write_config and not schema.sparse:
        raise ImportProblem(f"{options.schema}: --write-config needs at least one sparse column")
    if options.data and not options.write_config:
        raise ImportProblem("--data is for --write-config CONFIG.yaml")
    config_data(options)
    for _, path in options.data:
        if not os.path.isfile(path):
            raise ImportProblem(f"--data {path}: no such file")
    seen = {os.path.realpath(path) for path in [options.schema, *options.inputs]}
    for path in (options.output, options.test_output, options.write_config, options.dictionary):
        if path is None:
            continue
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise ImportProblem(f"{path}: there is no folder {folder}")
        if os.path.realpath(path) in seen:
            raise ImportProblem(f"{path} is named twice")
        seen.add(os.path.realpath(path))


def infer(options):
    if os.path.exists(options.schema):
        raise ImportProblem(f"{options.schema}: exists; --infer writes a new file")
    path = options.inputs[0]
    kind = kind_by_name(path)
    form = survey(path, kind)
    chunk = next(iter(open_columns(form, kind, path, None)), None)
    arrays, places, _ = chunk.slow() if chunk else ({}, [], [])
    if len(places) == 0:
        raise ImportProblem(f"{path}: no record is well-formed")
    text = schema_text(kind, form.delimiter, path, arrays)
    write_text(options.schema, lambda file: file.write(text))
    print(f"{options.schema}: a schema by the first {len(places)} records of {path}; look through it before use")


def run_import(options):
    start = time.monotonic()
    schema = read_schema(options.schema, not options.unlabelled)
    check_options(options, schema)
    threads = options.threads or len(os.sched_getaffinity(0))
    lock = locked(options.dictionary) if options.dictionary is not None and not options.frozen_dictionary else None
    try:
        import_records(options, schema, threads, start)
    finally:
        if lock is not None:
            lock.release()


def locked(path):
    if os.path.exists(path) and not os.path.isfile(path):
        raise ImportProblem(f"{path}: is no regular file")
    try:
        return Lock(path)
    except OSError as error:
        raise ImportProblem(f"{path}: cannot write: {error.strerror}") from None


def import_records(options, schema, threads, start):
    known = options.dictionary is not None and os.path.exists(options.dictionary)
    state = load_state(options.dictionary) if known else State()
    if options.frozen_dictionary:
        check_frozen(options.dictionary, state, schema)
    unchanged = Unchanged()
    find_scales(options, schema, state, threads, unchanged)
    encodings = make_encodings(schema, state.dictionaries, options.frozen_dictionary, options.dictionary)
    outputs = Outputs(schema, encodings, options.output, options.test_output, state.scales)
    try:
        totals = run(schema, options.inputs, unchanged, threads, work(options, schema, state), outputs.append)
        if totals.records == 0:
            raise ImportProblem(f"{options.inputs[0]}: no record is well-formed")
        counts = outputs.finish()
        warnings = list(outputs.warnings())
        if options.dictionary is not None and not options.frozen_dictionary:
            save_state(options.dictionary, state, schema, encodings)
        outputs.commit()  # last: a dataset's ids mean nothing without their dictionary
    finally:
        outputs.close()
    if options.write_config:
        write_config(options.write_config, shared=shared_tables(schema), tasks=schema.tasks,
                     **config_data(options))
    report(options, encodings, totals, counts, time.monotonic() - start)
    for warning in warnings:
        print("warning: " + "".join(c if c.isprintable() else "?" for c in warning), file=sys.stderr)


def work(options, schema, state):
    converter = Converter(schema, state.scales)
    return lambda chunk: convert_chunk(chunk, converter, options.skip_malformed)


def find_scales(options, schema, state, threads, unchanged):
    """Mean and deviation of the columns to standardise. Those that are not known take a pass over the inputs."""
    places = [index for index, dense in enumerate(schema.dense)
              if dense.standardise and dense.column not in state.scales]
    if places:
        moments = Moments(places)
        run(schema, options.inputs, unchanged, threads, work(options, schema, state), moments.add)
        state.scales.update(zip((schema.dense[place].column for place in places), moments.scales()))


def shared_tables(schema):
    tables = {}
    for feature in schema.sparse:
        if feature.table is not None:
            tables.setdefault(feature.table, []).append(feature.name)
    return tables


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
    def work():
        options = make_parser().parse_args(arguments)
        check_inputs(options)
        infer(options) if options.infer else run_import(options)

    return exit_code(work, (DatasetError,), (WriteError,))
