"""The canonical text of a value that is a category: one value has one id, whatever its type and spelling.

A whole number is its digits: 12, 12.0, 1.2e1 and the decimal 12.000000000 are "12". A float or a decimal that is not
whole is its shortest digits without an exponent. A text is itself, unless it is a whole number with a point, or a
number with an exponent as programs print it (one digit before the point). So 012, +12, 1.10 and 12e5 remain texts.
"""
import decimal
import numbers
import re

import numpy as np

# is_other_number() of src/encode/canonical.cpp is the same.
OTHER_NUMBER = (r"^(-0|-?(0|[1-9][0-9]*)\.0+|-?0(\.0+)?[eE][+-]?0+|-?[1-9](\.[0-9]+)?[eE][+-]?[0-9]{1,3})$")
NUMBER = re.compile(OTHER_NUMBER.replace("$", r"\Z"))


def canonical_text(value):
    """Of a text, an integer, a float or a decimal. Floats and decimals are finite or not, but not missing."""
    if isinstance(value, str):
        return of_number_text(value) if NUMBER.match(value) else value
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, decimal.Decimal):
        return trimmed(f"{value:f}")
    if not np.isfinite(value):
        return str(float(value))
    if float(value).is_integer():
        return str(int(value))
    return np.format_float_positional(value, unique=True, trim="-")


def of_number_text(text):
    if "e" not in text.lower():
        return trimmed(text)  # of any number of digits
    number = float(text)
    return canonical_text(number) if np.isfinite(number) else text


def trimmed(text):
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
