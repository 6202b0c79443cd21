#!/usr/bin/env python3
"""What launch/bundle.sh packs is small, and starts where neither MPI nor HDF5 is installed: acceptance_bundle_test.py BIN

The root of a machine that has the C and C++ libraries, bash, a few commands and Python is made of copies of this one's.
Ends with 77 where no such root can be entered.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"
COMMANDS = ("bash", "sh", "sed", "id", "env", "cat", "dirname", "uname", "hostname")
MOST_BYTES = 60 << 20  # of the bundle and the working tree, which are sent to the machine together
# What launch/bundle.sh expects of every machine.
OF_THE_SYSTEM = r"lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|nss_files|lzma|z|expat)\.so"
ENTER = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([] if os.getuid() == 0 else ["--map-root-user"])]
programs = ""


def output(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **options).stdout


def libraries_of(paths):
    """Of files that the loader does not know, none."""
    said = subprocess.run(["ldd", *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return set(re.findall(r"(?:=> )?(/\S+) \(0x", said))


def make_root(root):
    def put(path):
        to = root + path
        if not os.path.exists(to):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(os.path.realpath(path), to)

    library = os.path.dirname(output(PYTHON, "-c", "import os; print(os.__file__)").strip())
    shutil.copytree(library, root + library, symlinks=True,
                    ignore=shutil.ignore_patterns("test", "__pycache__", "dist-packages", "site-packages", "idlelib", "config-*"))
    modules = [os.path.join(library, "lib-dynload", name) for name in os.listdir(os.path.join(library, "lib-dynload"))
               if re.match(r"_(lzma|bz2|ctypes|hashlib|json|struct|socket|random|datetime)\b|zlib|grp|resource", name)]
    commands = [found for found in map(shutil.which, COMMANDS) if found]
    for path in [*commands, PYTHON, *libraries_of([*commands, PYTHON, *modules])]:
        put(path)
    built = libraries_of([os.path.join(programs, name) for name in os.listdir(programs)])
    for path in built:
        if re.search("/" + OF_THE_SYSTEM, path) or "/ld-linux" in path:
            put(path)
    for folder in ("proc", "dev", "sys", "tmp", "etc", "tree"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    for name in ("bin", "sbin"):
        if not os.path.lexists(os.path.join(root, name)):
            os.symlink("usr/bin", os.path.join(root, name))
    with open(os.path.join(root, "etc/passwd"), "w", encoding="utf-8") as file:
        file.write("root:x:0:0:root:/tmp:/bin/sh\n")
    with open(os.path.join(root, "etc/hosts"), "w", encoding="utf-8") as file:
        file.write(f"127.0.0.1 localhost {os.uname().nodename}\n")
    for folder in ("launch", "configs"):
        shutil.copytree(os.path.join(ROOT, folder), os.path.join(root, "tree", folder))


def in_root(root, command):
    inner = 'mount -t proc none "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" /usr/bin/env -i "$@"'
    return subprocess.run([*ENTER, "sh", "-c", inner, root, "PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C", *command],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/")


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.file = os.path.join(cls.folder, "all.tar.xz")
        # Packed in a hurry: the file is larger than the real one.
        subprocess.run([os.path.join(ROOT, "launch/bundle.sh"), "--preset", os.path.basename(os.path.dirname(programs)), cls.file],
                       env={**os.environ, "XZ_OPT": "-0"}, check=True, stdout=subprocess.DEVNULL)

    def test_with_the_working_tree_it_is_small(self):
        try:
            tree = output("git", "-C", ROOT, "ls-files", "-z").split("\0")
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("the tree is no git checkout")
        sizes = [os.path.getsize(os.path.join(ROOT, name)) for name in tree if os.path.isfile(os.path.join(ROOT, name))]
        self.assertLess(sum(sizes) + os.path.getsize(self.file), MOST_BYTES)

    def test_it_starts_where_neither_mpi_nor_hdf5_is_installed(self):
        root = os.path.join(self.folder, "root")
        make_root(root)
        for name in ("libmpi", "libhdf5", "libdnnl"):
            self.assertEqual([f for _, _, files in os.walk(root) for f in files if f.startswith(name)], [])
        shutil.copy(self.file, os.path.join(root, "all.tar.xz"))
        done = in_root(root, ["bash", "/tree/launch/gpu_acceptance.sh", "--first", "--emulated", "--bundle", "/all.tar.xz", "--output",
                              "/out", "--only", "start,losses-dot,nccl-2"])
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(os.path.join(root, "out", "record.json"), encoding="utf-8") as file:
            steps = json.load(file)["steps"]
        self.assertEqual([step["status"] for step in steps], ["passed"] * 3, done.stdout)


if __name__ == "__main__":
    programs = os.path.abspath(sys.argv.pop(1))
    missing = [name for name in ("unshare", "mpirun", "xz", "chroot", PYTHON) if not shutil.which(name)]
    if missing or subprocess.run([*ENTER, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        print(f"skipped: {', '.join(missing) + ' is missing' if missing else 'no right to mount'}")
        sys.exit(77)
    unittest.main()
