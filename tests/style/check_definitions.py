#!/usr/bin/env python3
"""Finds types that are defined twice: classes, structs, unions and enums of the same qualified name in two files
that one program links. That violates the one-definition rule of C++, and no linker reports it. Prints each and
exits with 1.

    check_definitions.py [ROOT]"""
import collections
import os
import re
import sys

from check_includes import DIRECT, allowed, module_of

HERE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
# Lines of the preprocessor with their continuations, comments, raw and plain strings, characters.
NO_CODE = re.compile(
    r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'", re.M | re.S)
NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)\s*$")
TYPE = re.compile(r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:alignas\s*\([^{]*?\)\s*|\[\[.*?\]\]\s*)?"
                  r"([A-Za-z_][\w:]*(?:<[^{};]*>)?)\s*(?:final\s*)?(?::[^:].*)?$", re.S)


def definitions(text):
    """Qualified names of the types that `text` defines with external visibility: not in an unnamed namespace
    or in a function."""
    text = NO_CODE.sub(" ", text)
    scopes, found, start = [], [], 0  # a scope is its name, or None where nothing within is visible
    for brace in re.finditer(r"[{};]", text):
        head, start = text[start:brace.start()].strip(), brace.end()
        if brace.group() == "}":
            if scopes:
                scopes.pop()
        elif brace.group() == "{":
            namespace, kind = NAMESPACE.search(head), TYPE.search(head)
            if namespace:
                scopes.append(namespace.group(1) or None)
            elif kind and not re.search(r"[)=]\s*$", head):
                scopes.append(kind.group(1))
                if None not in scopes:
                    found.append("::".join(scopes))
            else:
                scopes.append(None)
    return found


def sources(root):
    for top in ("src", "include", "data_tools", "kernels", "python", "tests"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith((".h", ".cpp", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def program_of(path):
    """A folder of tests, or the file of a main function, which only some programs link. Otherwise ""."""
    parts = path.split(os.sep)
    if parts[0] == "tests":
        return os.sep.join(parts[:2])
    if parts[:2] == ["src", "app"] and len(parts) == 3:
        return path
    return ""


def links(program, path):
    """Whether the program may link the file: tests/MODULE links what the module may include."""
    module = os.path.basename(program)
    return not program.startswith("tests") or module not in DIRECT or module_of(path) in allowed(module) | {"kernels"}


def find(root):
    """The number of types in a tree, and those defined twice, each with its files."""
    places = collections.defaultdict(list)
    for path in sorted(sources(root)):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for name in sorted(set(definitions(file.read()))):
                places[name].append(path)
    breaches = []
    for name, files in sorted(places.items()):
        shared = [path for path in files if not program_of(path)]
        programs = {program_of(path) for path in files} - {""}
        groups = [shared] + [[path for path in files if path not in shared and program_of(path) == program or
                              path in shared and links(program, path)] for program in sorted(programs)]
        for group in groups:
            if len(group) > 1 and (name, group) not in breaches:
                breaches.append((name, group))
    return len(places), breaches


def main():
    count, breaches = find(os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else HERE)
    for name, group in breaches:
        print(f"{name} is defined in {' and in '.join(group)}")
    print(f"{count} types, {len(breaches)} defined twice")
    sys.exit(bool(breaches))


if __name__ == "__main__":
    main()
