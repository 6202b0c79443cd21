"""Reads YAML whose plain scalars keep their text: `yes`, 012 and 12:30 are what the file says. What a key needs decides
what they become."""
import yaml

from .problems import ImportProblem

NULLS = ("", "~", "null", "Null", "NULL")


class Plain(str):
    """A scalar without quotes."""


class Loader(yaml.SafeLoader):
    """Scalars become str, those without quotes Plain or None. A key that is there twice is an error."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key {key.value} is there twice",
                                                            key.start_mark)
                seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return super().construct_mapping(node, deep)


def scalar(_, node):
    if node.style is not None:
        return node.value
    return None if node.value in NULLS else Plain(node.value)


Loader.yaml_constructors = {**yaml.SafeLoader.yaml_constructors}
for kind in ("str", "bool", "int", "float", "null", "timestamp", "value"):
    Loader.add_constructor(f"tag:yaml.org,2002:{kind}", scalar)


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.load(file, Loader)
    except OSError as error:
        raise ImportProblem(f"{path}: cannot read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError, RecursionError) as error:
        raise ImportProblem(f"{path}: is not YAML: {' '.join(str(error).split())}") from None


def as_number(value):
    """int or float of a Plain, otherwise the value itself."""
    if isinstance(value, Plain):
        text = value.replace("_", "")
        for kind in (int, lambda text: int(text, 16) if text.lower().startswith("0x") else int("x"), float):
            try:
                return kind(text)
            except ValueError:
                pass
        return {".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}.get(text.lower(), value)
    return value


def as_flag(value):
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    return words.get(value.lower(), value) if isinstance(value, Plain) else value


def shown(value):
    """As an error shows it: without quotes if it has none in the file."""
    return str(value) if isinstance(value, Plain) else repr(value)
