"""Reads what a run leaves in its output.directory (docs/operations.md): config.yaml, metrics.jsonl, summary.json."""
from __future__ import annotations

import json
import os
import re
from typing import Any

from ..endings import Refused

TOKEN = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[{}\[\],]|:(?=\s|$)|(?:(?!:\s|:$)[^{}\[\],])+)""")


class Run:
    """A run's directory. `steps` and `evals` are the two kinds of lines of metrics.jsonl. `summary` is empty until
    the run has ended."""

    def __init__(self, folder: str):
        self.folder = folder
        self.name = os.path.basename(os.path.normpath(folder))
        if not os.path.isdir(folder):
            raise Refused(f"{folder}: there is no such folder")
        if not os.path.exists(self.path("metrics.jsonl")):
            raise Refused(f"{folder}: there is no metrics.jsonl: not the output.directory of a run")
        lines = read_lines(self.path("metrics.jsonl"))
        self.steps = [line for line in lines if "loss" in line]
        self.evals = [line for line in lines if "auc" in line]
        if any(line.get("split") == "valid" for line in self.evals):  # not that of the test data, at the end
            self.evals = [line for line in self.evals if line.get("split") == "valid"]
        self.summary = self.read("summary.json", json.loads, {})
        self.config = self.read("config.yaml", flat_config, {})

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def read(self, name, parse, default):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return parse(file.read())
        except FileNotFoundError:
            return default
        except (ValueError, OSError) as error:
            raise Refused(f"{self.path(name)}: cannot be read: {error}") from None

    @property
    def best_eval(self) -> dict[str, Any]:
        """By the metric of checkpoint.keep_best. Of a run that has not ended, the last evaluation."""
        return self.summary.get("best_eval") or self.summary.get("eval") or (self.evals[-1] if self.evals else {})

    @property
    def tasks(self) -> dict[str, Any]:
        """The best evaluation of each of several tasks, by its name."""
        return self.best_eval.get("tasks", {})

    @property
    def samples_per_second(self) -> float | None:
        if "samples_per_second" in self.summary:
            return self.summary["samples_per_second"]
        return self.steps[-1].get("samples_per_second") if self.steps else None

    @property
    def rates(self) -> list[dict[str, Any]]:
        """Step and samples/s of up to 40 parts of the run, of several lines each: the rates of single lines jump."""
        lines = [line for line in self.steps if line.get("samples_per_second")]
        count = len(lines)
        parts = count if count < 10 else min(40, count // 4)
        result = []
        for part in range(parts):
            first, end = part * count // parts, (part + 1) * count // parts
            ends = [0, *(line.get("samples", 0) for line in lines)][first:end + 1]
            samples = [max(1, after - before) for before, after in zip(ends, ends[1:])]
            seconds = sum(n / line["samples_per_second"] for n, line in zip(samples, lines[first:end]))
            result.append({"step": lines[end - 1]["step"], "samples_per_second": sum(samples) / seconds})
        return result

    @property
    def last_step(self) -> int:
        return max((line["step"] for line in self.steps + self.evals), default=0)


def read_lines(path: str) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines. A last line without an end is still being written."""
    result = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    break
                result.append(json.loads(line))
                if not isinstance(result[-1], dict):
                    raise ValueError
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise Refused(f"{path}: line {number} is not a JSON object") from None
    return result


def flat_config(text: str) -> dict[str, str]:
    """The values of a config.yaml that dlrm-train wrote, by names such as train.dense_optimizer.lr. An item of a
    list is named by its `name`, or by its number."""
    result: dict[str, str] = {}
    path: list[tuple[int, str]] = []  # indentation and name of the open maps
    items = 0
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        content = line.strip()
        if content.startswith("- "):
            prefix = ".".join(name for _, name in path)
            add(result, prefix, parse_flow(content[2:]), items)
            items += 1
            continue
        name, _, value = content.partition(":")
        while path and path[-1][0] >= depth:
            path.pop()
        path.append((depth, name.strip("\"'")))
        items = 0
        if value.strip():
            add(result, ".".join(name for _, name in path), parse_flow(value))
    return result


def add(result, prefix, value, number=None):
    """Adds a parsed value with its parts."""
    if number is not None:
        prefix += f".{value.get('name', number) if isinstance(value, dict) else number}"
    if isinstance(value, dict) and value:
        for name, part in value.items():
            if number is None or name != "name":
                add(result, f"{prefix}.{name}", part)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for index, part in enumerate(value):
            add(result, prefix, part, index)
    else:
        result[prefix] = value if isinstance(value, str) else str(value).replace("'", "")


def parse_flow(text):
    """A value of YAML's flow style: a dict, a list or text."""
    if text.strip()[:1] not in "{[":
        return unquoted(text.strip())  # the rest of the line, whatever is in it
    tokens = [token.strip() for token in TOKEN.findall(text) if token.strip()]
    value, end = parse_tokens(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"not a value: {text.strip():.60}")
    return value


def parse_tokens(tokens, at):
    if at >= len(tokens):
        raise ValueError("a value ends too early")
    token = tokens[at]
    if token not in "{[":
        return unquoted(token), at + 1
    result, close = ({}, "}") if token == "{" else ([], "]")
    at += 1
    while at < len(tokens) and tokens[at] != close:
        if close == "}":
            name = unquoted(tokens[at])
            if tokens[at + 1:at + 2] != [":"]:
                raise ValueError(f"no value after {name}")
            result[name], at = parse_tokens(tokens, at + 2)
        else:
            value, at = parse_tokens(tokens, at)
            result.append(value)
        if tokens[at:at + 1] == [","]:
            at += 1
    if at >= len(tokens):
        raise ValueError(f"there is no {close}")
    return result, at + 1


def unquoted(token):
    if token.startswith('"'):
        return json.loads(token)
    return token[1:-1].replace("''", "'") if token.startswith("'") else token
