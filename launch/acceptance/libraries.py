"""Finds shared libraries for prebuilt programs on another machine."""
import ctypes
import glob
import os
import re
import shutil
import tempfile

from commands import Skip, run_command

PYTHON_PATHS = "import site, sys; print(*sys.path, *site.getsitepackages(), sep='\\n')"
SECONDS = 10  # for a short command
AT_RUN_TIME = ("libnccl.so.2",)  # loaded by name, so that ldd does not tell


def answer(command, env=None):
    """What a short command prints, or nothing if it fails, hangs or is missing."""
    with tempfile.NamedTemporaryFile() as log:
        try:
            run = run_command(command, log.name, SECONDS, "/", {**os.environ, **(env or {})})
        except (Skip, OSError):
            return ""
        return run.text().strip() if run.code == 0 else ""


def loaded(program, env):
    """(library, path or "not found") as the loader finds them."""
    said = answer([program], {**env, "LD_TRACE_LOADED_OBJECTS": "1"})
    return re.findall(r"^\s*(\S+) => (not found|/\S+)", said, re.M)


def found(program, env):
    """Where CUDA's libraries, MPI and HDF5 come from."""
    return [(name, path) for name, path in loaded(program, env) if re.match(r"lib(cuda|cublas|cudnn|nccl|mpi\.|hdf5)", name)]


def missing(programs, env):
    return {name for program in programs for name, path in loaded(program, env) if path == "not found"}


def places(bin_dir):
    """Folders of CUDA's libraries: next to the programs, in the toolkit, in Python's wheels."""
    yield os.path.join(os.path.dirname(bin_dir), "lib")
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home:
            yield from (os.path.join(home, "lib64"), os.path.join(home, "lib"),
                        os.path.join(home, "targets/x86_64-linux/lib"))
    for python in dict.fromkeys(filter(None, (shutil.which("python3"), "/usr/bin/python3"))):
        for folder in answer([python, "-c", PYTHON_PATHS]).splitlines():
            if folder:
                yield from sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib")))
    yield from ("/usr/local/nvidia/lib64", "/usr/local/lib")


def loads(name):
    try:
        ctypes.CDLL(name)
        return True
    except OSError:
        return False


def bundled_mpi(bin_dir):
    """The environment of the Open MPI that launch/bundle.sh packed with the programs, if any."""
    home = os.path.join(os.path.dirname(bin_dir), "mpi")
    if not os.access(os.path.join(home, "bin", "mpirun"), os.X_OK):
        return {}
    # All ranks are here, so neither ssh nor rsh is looked for.
    env = {"OPAL_PREFIX": home, "OMPI_MCA_plm": "isolated",
           "PATH": os.path.join(home, "bin") + ":" + os.environ.get("PATH", "/usr/bin:/bin")}
    for pmix in glob.glob(os.path.join(home, "lib*", "**", "pmix2"), recursive=True)[:1]:
        env["PMIX_INSTALL_PREFIX"] = pmix
    return env


def path_for(bin_dir, names):
    """(environment in which the programs `names` of the folder start, libraries not found)."""
    programs = [path for path in (os.path.join(bin_dir, name) for name in names) if os.access(path, os.X_OK)]
    env = bundled_mpi(bin_dir)
    if env:
        programs.append(os.path.join(env["OPAL_PREFIX"], "bin", "mpirun"))
    wanted = missing(programs, {}) | {name for name in AT_RUN_TIME if not loads(name)}
    folders = []
    for folder in dict.fromkeys(places(bin_dir)):
        here = {name for name in wanted if os.path.exists(os.path.join(folder, name))}
        if here:
            folders.append(folder)
            wanted -= here
    if folders:
        given = os.environ.get("LD_LIBRARY_PATH")
        env["LD_LIBRARY_PATH"] = ":".join(folders + ([given] if given else []))
    return env, sorted(missing(programs, env))
