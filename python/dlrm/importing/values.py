"""Arrow's arrays as NumPy's, with the positions of the values that cannot be used."""
import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..dataset.keys import OTHER_NUMBER, canonical_text

from . import native
from .problems import ImportProblem
from .text_keys import plain_strings

NO_BAD = np.empty(0, np.int64)
PRINTABLE = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
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


def fresh(array):
    """A dictionary of the array's own values alone, in the order of their first appearance. Without nulls."""
    if not pa.types.is_dictionary(array.type):
        return array
    if array.null_count or array.dictionary.null_count:
        return array.cast(array.type.value_type)
    if native.library() and array.indices.type == pa.int32():
        numbers, used = native.renumber(array.indices, len(array.dictionary))
        return pa.DictionaryArray.from_arrays(numbers, array.dictionary.take(used), safe=False)
    used = array.indices.dictionary_encode()
    return pa.DictionaryArray.from_arrays(used.indices, array.dictionary.take(used.dictionary))


def filled(array):
    """With the empty text instead of nulls, if it is an array of texts with a dictionary."""
    if not pa.types.is_dictionary(array.type) or not array.null_count or not is_text(array.type.value_type):
        return array
    texts = array.dictionary
    empty = pc.index(texts, pa.scalar("", texts.type)).as_py()
    if empty < 0:
        empty = len(texts)
        texts = pa.concat_arrays([texts, pa.array([""], texts.type)])
    return pa.DictionaryArray.from_arrays(array.indices.fill_null(empty), texts)


def is_text(kind):
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_bytes(kind):
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def is_list(kind):
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def unusable(column, kind, needed):
    return ImportProblem(f"column {column} has the type {kind}; {needed} are needed")


def trimmed(array, missing):
    """Texts without white space around them; null for those that mean a missing value."""
    array = pc.utf8_trim_whitespace(array)
    absent = pc.is_in(array, value_set=pa.array(missing, array.type))
    return pc.if_else(absent, pa.scalar(None, array.type), array)


def numbers(column, array, missing):
    """float64 with NaN for missing values, and the positions of values that are no numbers."""
    array, bad = plain(array), NO_BAD
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan), bad
    if is_text(kind):
        array, bad = converted(trimmed(array, missing), lambda part: part.cast(pa.float64()))
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8()).cast(pa.float64())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        array = array.cast(pa.float64(), safe=False)
    else:
        raise unusable(column, kind, "numbers")
    return array.to_numpy(zero_copy_only=False), bad


def integers(column, array, missing):
    """int64, which are missing, and the positions of values that are no integers of 64 bits."""
    array, bad = plain(array), NO_BAD
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64), np.ones(len(array), bool), bad
    if is_text(kind):
        array = trimmed(array, missing)
        try:
            array = array.cast(pa.int64())
        except pa.ArrowInvalid:  # 12.0 is 12
            array, bad = converted(canonical(array), lambda part: part.cast(pa.int64()))
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        if pa.types.is_floating(kind):
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
        array, bad = converted(array, lambda part: part.cast(pa.int64()))
    else:
        raise unusable(column, kind, "integers")
    absent = array.is_null().to_numpy(zero_copy_only=False)
    absent[bad] = False
    if array.null_count:
        array = array.fill_null(0)
    return array.to_numpy(zero_copy_only=False), absent, bad


def texts(column, array, spelled=False):
    """The number of each value among the different texts, in order of their first appearance, and these texts
    (pa.string()). A missing value is an empty text. Also the positions of values that are not UTF-8. An array
    that has a dictionary must be `fresh`. `spelled`: texts remain as they are spelled."""
    one_key = (lambda indices, keys: (indices, keys)) if spelled else canonical_keys
    bad = NO_BAD
    if pa.types.is_dictionary(array.type) and is_text(array.type.value_type) and array.null_count == 0:
        return *one_key(array.indices.to_numpy(), plain_strings(array.dictionary)), bad
    array = plain(array)
    kind = array.type
    if pa.types.is_null(kind):
        array = pa.array([""] * len(array), pa.string())
    elif pa.types.is_floating(kind):
        array = canonical(pc.if_else(pc.is_nan(array.cast(pa.float64())), pa.scalar(None, kind), array))
    elif pa.types.is_decimal(kind):
        array = canonical(array)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or any(is_it(kind) for is_it in PRINTABLE):
        array = array.cast(pa.string())
    elif is_bytes(kind):
        array, bad = converted(array.cast(pa.binary()), lambda part: part.cast(pa.string()))
    elif not is_text(kind):
        raise unusable(column, kind, "texts or integers")
    if array.null_count:
        array = array.fill_null("")
    if pa.types.is_string(array.type) and native.library():
        return *one_key(*native.encode(array)), bad
    encoded = array.dictionary_encode()
    return *one_key(encoded.indices.to_numpy(), plain_strings(encoded.dictionary)), bad


def canonical(array):
    """The canonical texts of floats, decimals or texts. Nulls remain."""
    encoded = array.dictionary_encode()
    values = encoded.dictionary
    if pa.types.is_floating(values.type):
        found = values.to_numpy(zero_copy_only=False)
        whole = (np.abs(found) < 2**63) & (np.floor(found) == found)
        keys = pa.array(np.where(whole, found, 0).astype(np.int64)).cast(pa.string())
        if not whole.all():
            keys = pa.array([text if is_whole else canonical_text(value)
                             for value, text, is_whole in zip(found, keys.to_pylist(), whole)], pa.string())
    else:
        keys = pa.array([canonical_text(value) for value in values.to_pylist()], pa.string())
    return keys.take(encoded.indices)


def canonical_keys(indices, keys):
    """The same with one key for each value, whatever its spelling. Keys differ."""
    other = pc.match_substring_regex(keys, OTHER_NUMBER)
    if not pc.any(other).as_py():
        return indices, keys
    texts = [canonical_text(key) for key in keys.to_pylist()]
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    return encoded.indices.to_numpy()[indices], encoded.dictionary


def lists(column, array, bag):
    """The items of all samples, and offsets. Empty items of a text are left out."""
    array = plain(array)
    kind = array.type
    if is_list(kind):
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if pa.types.is_fixed_size_list(kind):
            array = array.cast(pa.list_(kind.value_type))
        items = array.flatten()
    elif is_text(kind) and bag.separator is not None:
        found = native.split(array.fill_null(""), bag.separator) if pa.types.is_string(kind) and native.library() else None
        if found is not None:
            items, offsets = found
            return (items, offsets) if bag.cap is None else capped(items, np.diff(offsets), bag)
        split = pc.split_pattern(array.fill_null(""), bag.separator)
        lengths = pc.list_value_length(split).to_numpy(zero_copy_only=False).astype(np.int64)
        items = split.flatten()
        filled = pc.not_equal(pc.utf8_trim_whitespace(items), "").to_numpy(zero_copy_only=False)
        if not filled.all():
            lengths = np.diff(np.concatenate([[0], np.cumsum(filled)])[offsets_of(lengths)])
            items = items.filter(pa.array(filled))
    elif pa.types.is_null(kind):
        return array.slice(0, 0), np.zeros(len(array) + 1, np.int64)
    elif is_text(kind):
        raise ImportProblem(f"column {column} has texts; give `separator` in its `list`")
    else:
        present = array.is_valid()
        lengths, items = present.to_numpy(zero_copy_only=False).astype(np.int64), array.filter(present)
    if bag.cap is not None:
        return capped(items, lengths, bag)
    return items, offsets_of(lengths)


def capped(items, lengths, bag):
    """At most `cap` items of each sample: its first or its last ones."""
    offsets, kept = offsets_of(lengths), np.minimum(lengths, bag.cap)
    new = offsets_of(kept)
    if new[-1] == offsets[-1]:
        return items, offsets
    start = offsets[:-1] if bag.keep == "first" else offsets[1:] - kept
    return items.take(pa.array(np.repeat(start - new[:-1], kept) + np.arange(new[-1]))), new


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def seconds(column, array, form, missing):
    """Times in seconds since 1970 in UTC, NaN if missing, and the positions of values that are no times."""
    array = plain(array)
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return numbers(column, microseconds(array), missing)[0] * 1e-6, NO_BAD
    if form is None or form == "seconds":
        if not is_text(kind) or form == "seconds":
            return numbers(column, array, missing)
    elif not is_text(kind):  # 20240131
        whole, absent, bad = integers(column, array, missing)
        keep = np.ones(len(whole), bool)
        keep[bad] = False
        array = pa.array(whole, mask=absent | ~keep).cast(pa.string())
        found, more = seconds(column, array, form, missing)
        return found, np.union1d(bad, more)
    read = (lambda part: part.cast(pa.timestamp("us", "UTC" if zoned else None))) if form is None else (
        lambda part: real_days(part, pc.strptime(part, form, "us"), form))
    array, zoned = trimmed(array, missing), False
    if form is None and pc.any(pc.match_substring_regex(array, r":\d\d.*([zZ]|[+-]\d\d:?\d\d)$")).as_py():
        zoned = True
    array, bad = converted(array, read)
    return numbers(column, microseconds(array), missing)[0] * 1e-6, bad


def real_days(texts, times, form):
    """The times, if no text has a day that its month lacks: strptime takes 31 February for 2 or 3 March."""
    for index in np.flatnonzero(pc.fill_null(pc.less_equal(pc.day(times), 3), False).to_numpy(zero_copy_only=False)):
        try:
            datetime.datetime.strptime(texts[index].as_py(), form)
        except ValueError as error:
            if "day is out of range" in str(error):
                raise pa.ArrowInvalid(str(error)) from None
    return times


def microseconds(array):
    zone = getattr(array.type, "tz", None)
    return array.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
