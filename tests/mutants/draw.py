#!/usr/bin/env python3
"""Draws random lines of code for a new list of mistakes, in the syntax of the lists.

    tests/mutants/draw.py COUNT --seed SEED --name LETTER [--folders FOLDER[,FOLDER]]

Every line of the folders that may be wrong has the same chance; default: include, src and kernels.
Comments, preprocessor lines, braces, labels and bare declarations are left out, and so are the emulator
and the files that only a build for GPUs compiles, which no test reaches without one.
The same seed draws the same lines of the same sources. A mistake is then written at each line, or at
the nearest statement of its function. All mistakes are written before any is tried."""
import argparse
import os
import random
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("include", "src", "kernels")
LEFT_OUT = "kernels/simt/"
FOR_GPUS = re.compile(r"_toolkit\.\w+$")
NO_CODE = re.compile(r"\W*|#.*|(public|private|protected|default):|(namespace|using|template|friend)\b.*|"
                     r"(class|struct|enum)\b[^=;]*[{;]|\W*(else|try|do)\W*")
# A variable without a value, a function without a body, or the head of one.
DECLARATION = re.compile(r"(?!return|throw|delete|goto|break|continue|co_|case)[\w:<>,*& \[\]()]*?[\w>*&]\s+[*&]?[\w~]+"
                         r"(\[[^=]*\]|\{\})?;|"
                         r"(?!return|throw|else|co_)[\w:<>,*& \[\]]*[\w>*&\]]\s+[*&]?(operator\W+|[\w~:]+)\([^={}]*"
                         r"\)?( const)?( noexcept)?( override)?( = 0)?[;{]?")


def lines_of_code(text):
    """The numbers of the lines that hold code, counted from 1, with their text."""
    found, in_comment = [], False
    for number, line in enumerate(text.splitlines(), 1):
        in_comment = in_comment or line.lstrip().startswith("/*")
        code = line.split("//")[0].strip()
        if not in_comment and not NO_CODE.fullmatch(code) and not DECLARATION.fullmatch(code):
            found.append((number, code))
        in_comment = in_comment and "*/" not in line
    return found


def is_drawn(path, folders=FOLDERS):
    """Whether the file holds code of the folders that is not of the emulator and that tests can reach."""
    return (path.endswith((".h", ".cpp", ".cu", ".cuh")) and not path.startswith(LEFT_OUT)
            and not FOR_GPUS.search(path) and any(path.startswith(folder + "/") for folder in folders))


def draw(sources, count, seed):
    """`count` lines of the texts by path, as (path, number, line), in order of paths and numbers."""
    every = [(path, number, line) for path in sorted(sources) for number, line in lines_of_code(sources[path])]
    return sorted(random.Random(seed).sample(every, count))


def as_list(drawn, name):
    text, file = "", None
    for at, (path, number, line) in enumerate(drawn, 1):
        if path != file:
            text += f"\nfile {path}\n"
            file = path
        text += f"{name}_{at} KIND  # line {number}\n    {line}\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--folders", default=",".join(FOLDERS))
    given = parser.parse_args()
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], check=True, capture_output=True,
                            text=True).stdout.splitlines()
    sources = {}
    for path in listed:
        if is_drawn(path, given.folders.split(",")):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                sources[path] = file.read()
    print(as_list(draw(sources, given.count, given.seed), given.name), end="")


if __name__ == "__main__":
    main()
