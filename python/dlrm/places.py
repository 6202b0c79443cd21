"""Where launch scripts and configs are: within a package that pip installed, otherwise two folders above it, as in the
sources and in share/dlrm of an installation by CMake."""
import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))
WITHIN = os.path.join(PACKAGE, "launch")  # a link to that of the sources in build/PRESET/package
HOME = os.path.dirname(os.path.realpath(WITHIN)) if os.path.exists(WITHIN) else os.path.dirname(os.path.dirname(PACKAGE))
CONFIGS = os.path.join(HOME, "configs")
RUN = os.path.join(HOME, "launch", "run.sh")
TRIALS_BATCH = os.path.join(HOME, "launch", "slurm", "sweep.sbatch")
