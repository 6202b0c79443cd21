#!/usr/bin/env python3
"""Checks README.md and docs/: links, repository paths and names in the code exist, commands can be executed, prose
is at most 100 columns wide, docs/architecture.md is short, and its module table agrees with check_includes.py.
Prints each breach and exits with 1.

    check_docs.py [ROOT]"""
import fnmatch
import os
import re
import sys

import check_includes

HERE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
WIDEST = 100
LONGEST = {os.path.join("docs", "architecture.md"): 250}
FOLDERS = "cmake|configs|data_tools|docs|examples|include|kernels|launch|python|src|tests"
PATH = re.compile(rf"(?:\./)?((?:{FOLDERS})/[\w./*{{}},+-]*)")
COMMAND = re.compile(rf"\s*(?:\w+=\S+ )*(?:\./)?((?:{FOLDERS})/[\w./-]+\.(?:py|sh))(?:\s|$)")
SOURCE = re.compile(r"[\w*.-]+\.(?:h|cpp|cu|cuh|py|sh|sbatch)")
# Type names, qualified names and names of several words; keys of files and configs are among them.
NAME = re.compile(r"(?:\w+::)+\w+|[A-Z]+[a-z]\w*|[a-z]{2,}(?:_[a-z0-9]+)+|DLRM_\w+")
CODE = (".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".sbatch", ".cmake", ".yaml", ".json", ".txt")


def tree(root):
    """Repository paths of all files and folders; build folders and hidden ones are left out."""
    paths = set()
    for folder, folders, files in os.walk(root):
        top = os.path.relpath(folder, root) == "."
        folders[:] = [f for f in folders if not f.startswith(".") and f != "__pycache__"
                      and not (top and f in ("build", "install", "runs", "ckpt", "quickstart"))]
        for name in folders + files:
            paths.add(os.path.relpath(os.path.join(folder, name), root))
    return paths


def words_of(root, paths):
    """Every word of the sources."""
    words = set()
    for path in paths:
        if path.endswith(CODE) and not path.startswith(("docs", os.path.join("tests", "style"), "README")):
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
                words.update(re.findall(r"\w+", f.read()))
    return words


def alternatives(path):
    """What a path with {a,b} stands for."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [a for part in braces.group(1).split(",")
            for a in alternatives(path[:braces.start()] + part + path[braces.end():])]


def anchors(root, path):
    """The anchors that GitHub makes of a page's headings."""
    result = set()
    for _, line, code in lines_of(root, path):
        if not code and line.startswith("#"):
            text = re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower())
            result.add(text.strip().replace(" ", "-"))
    return result


def lines_of(root, path):
    """Number, text, and whether it is code, of each line."""
    code = False
    with open(os.path.join(root, path), encoding="utf-8") as f:
        for number, line in enumerate(f.read().splitlines(), 1):
            fence = line.lstrip().startswith("```")
            yield number, line, code or fence
            code ^= fence


def link_breaches(root, path, line):
    for target in re.findall(r"\]\(([^)\s]+)\)", line):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        page = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(root, page)):
            yield f"link to {target}: no such file"
        elif anchor and anchor not in anchors(root, page):
            yield f"link to {target}: no such heading"


def path_breaches(text, paths):
    for token in re.split(r"[\s`'\"()=]+", text):
        found = PATH.fullmatch(token.rstrip(".,;:"))
        for one in alternatives(found.group(1).rstrip("/")) if found else ():
            if not any(fnmatch.fnmatchcase(p, one) for p in paths):
                yield f"{one}: no such file or folder"


def command_breaches(root, line):
    """A program that a line of code begins with."""
    found = COMMAND.match(line)
    path = os.path.join(root, found.group(1)) if found else ""
    if os.path.isfile(path) and not os.access(path, os.X_OK):
        yield f"{found.group(1)}: cannot be executed"


def name_breaches(text, paths, words):
    if SOURCE.fullmatch(text):
        if not any(fnmatch.fnmatchcase(os.path.basename(p), text) for p in paths):
            yield f"{text}: no file of this name"
        return
    found = NAME.fullmatch(re.sub(r"\(.*\)$", "", text))
    if found:
        for word in found.group().split("::"):
            if word not in words:
                yield f"{text}: no such name in the code"
                return


def page_breaches(root, path, paths, words):
    count = 0
    for number, line, code in lines_of(root, path):
        count = number
        breaches = []
        if code:
            breaches += path_breaches(line, paths)
            breaches += command_breaches(root, line)
        else:
            breaches += link_breaches(root, path, line)
            for quoted in re.findall(r"`([^`]+)`", line):
                breaches += path_breaches(quoted, paths)
                breaches += name_breaches(quoted, paths, words)
            if len(line) > WIDEST and not line.startswith(("|", "![")) and " " in line.strip():
                breaches.append(f"{len(line)} columns, at most {WIDEST}")
        for breach in breaches:
            yield f"{path}:{number}: {breach}"
    if count > LONGEST.get(path, count):
        yield f"{path}: {count} lines, at most {LONGEST[path]}"


def module_breaches(root, path):
    """Rows of the module table whose dependencies are not those of check_includes.py."""
    for number, line, _ in lines_of(root, path):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 4 or cells[0] not in check_includes.DIRECT or cells[2].startswith("all"):
            continue
        named = {word for word in re.sub(r"\(.*?\)|—", "", cells[2]).replace(" ", "").split(",") if word}
        expected = set(check_includes.DIRECT[cells[0]])
        if named != expected:
            yield f"{path}:{number}: {cells[0]} depends on {', '.join(sorted(expected))}"


def main():
    root = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else HERE
    paths = tree(root)
    words = words_of(root, paths)
    pages = sorted(p for p in paths if p.endswith(".md") and (p == "README.md" or p.startswith("docs" + os.sep)))
    breaches = [b for page in pages for b in page_breaches(root, page, paths, words)]
    for page in LONGEST:
        breaches += module_breaches(root, page) if page in pages else []
    print("\n".join(breaches) or f"{len(pages)} pages: links, paths, names and widths are right")
    sys.exit(bool(breaches))


if __name__ == "__main__":
    main()
