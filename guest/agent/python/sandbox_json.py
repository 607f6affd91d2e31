"""Strict JSON: what has no JSON form is an error that says what it was."""

import json


def decode(text):
    """Parses JSON bytes; none at all is None."""
    return json.loads(text) if text else None


def encode(value):
    """Serializes a value. Raises TypeError for types without a JSON form and
    ValueError for cycles, NaN and infinities."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError as error:
        if "Out of range float" not in str(error):
            raise
        raise ValueError("the result holds NaN or an infinite float, which JSON cannot represent") from None
    except RecursionError:
        raise ValueError("the result is nested too deeply for JSON") from None
