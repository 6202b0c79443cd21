"""Arrays of Arrow by their types, and times, with the positions of the values that cannot be used."""
import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NO_BAD = np.empty(0, np.int64)
VIEWS = {"string_view": pa.string(), "binary_view": pa.binary()}


def bad_positions(array, function):
    """The positions of the values that `function` refuses, by halving."""
    bad, ranges = [], [(0, len(array))]
    while ranges:
        begin, end = ranges.pop()
        try:
            function(array.slice(begin, end - begin))
        except pa.ArrowInvalid:
            if end - begin == 1:
                bad.append(begin)
            else:
                middle = (begin + end) // 2
                ranges += [(middle, end), (begin, middle)]
    return np.array(bad, np.int64)


def without(array, bad):
    """The array with null at these positions."""
    keep = np.ones(len(array), bool)
    keep[bad] = False
    return pc.if_else(pa.array(keep), array, pa.scalar(None, array.type))


def converted(array, function):
    """function(array), and the positions that it refuses, which become null."""
    try:
        return function(array), NO_BAD
    except pa.ArrowInvalid:
        bad = bad_positions(array, function)
        return function(without(array, bad)), bad


def plain(array):
    """Without a dictionary, of a usual type."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return usual(array)


def usual(array):
    """Without views, small decimals and small floats, which few functions take."""
    kind = array.type
    if pa.types.is_float16(kind):
        return array.cast(pa.float32())
    if str(kind) in VIEWS:
        return array.cast(VIEWS[str(kind)])
    if is_list(kind) and str(kind.value_type) in VIEWS:
        return array.cast(pa.large_list(VIEWS[str(kind.value_type)]))
    if str(kind).startswith(("decimal32", "decimal64")):
        return array.cast(pa.decimal128(kind.precision, kind.scale))
    return array


def is_text(kind):
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_bytes(kind):
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def is_list(kind):
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def trimmed(array, missing):
    """Texts without white space around them; null for those that mean a missing value."""
    array = pc.utf8_trim_whitespace(array)
    absent = pc.is_in(array, value_set=pa.array(missing, array.type))
    return pc.if_else(absent, pa.scalar(None, array.type), array)


def seconds(column, array, form, missing, encoder):
    """Times in seconds since 1970 in UTC, NaN if missing, and the positions of values that are no times."""
    array = plain(array)
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return micros(array), NO_BAD
    if form == "seconds" or form is None and not is_text(kind):
        values, refused = encoder.numbers(column, array)
        return values, np.array([row for row, _ in refused], np.int64)
    if not is_text(kind):  # 20240131
        array, bad = converted(array, lambda part: part.cast(pa.int64()))
        found, more = seconds(column, array.cast(pa.string()), form, missing, encoder)
        return found, np.union1d(bad, more)
    read = (lambda part: part.cast(pa.timestamp("us", "UTC" if zoned else None))) if form is None else (
        lambda part: real_days(part, pc.strptime(part, form, "us"), form))
    array, zoned = trimmed(array, missing), False
    if form is None and pc.any(pc.match_substring_regex(array, r":\d\d.*([zZ]|[+-]\d\d:?\d\d)$")).as_py():
        zoned = True
    array, bad = converted(array, read)
    return micros(array), bad


def real_days(texts, times, form):
    """The times, if no text has a day that its month lacks: strptime takes 31 February for 2 or 3 March."""
    for index in np.flatnonzero(pc.fill_null(pc.less_equal(pc.day(times), 3), False).to_numpy(zero_copy_only=False)):
        try:
            datetime.datetime.strptime(texts[index].as_py(), form)
        except ValueError as error:
            if "day is out of range" in str(error):
                raise pa.ArrowInvalid(str(error)) from None
    return times


def micros(array):
    """Timestamps and dates in seconds, NaN if missing."""
    zone = getattr(array.type, "tz", None)
    whole = array.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) * 1e-6
