"""The ranks of this job, and how it ends."""
import atexit
import sys
import typing

from . import _dlrm

_session: typing.Optional[_dlrm.Session] = None
FAILURE, STOPPED = 3, 130  # exit codes, as those of dlrm-train


def init(comm: typing.Any = None, threads: int = 0, timeout: float = 1800) -> _dlrm.Session:
    """Joins the ranks of the job. The first use of the package does so with these defaults.

    comm     a communicator of mpi4py, which starts and ends MPI; None: MPI.COMM_WORLD if mpirun or srun
             started several ranks, otherwise this process alone, without MPI
    threads  for the tables on this rank; 0: OMP_NUM_THREADS, or the CPUs that the launcher gave
    timeout  seconds after which the job ends, with the name of the rank, if a rank has made no call of this
             package and others may wait for it; 0: never. One rank has no limit.
    """
    global _session
    if _session is not None:
        raise RuntimeError("dlrm.init() was called before, or after the package's first use")
    if comm is None and not _dlrm.launched_in_parallel():
        _session = _dlrm.Session(threads)
    else:
        _session = _dlrm.Session(_handle(comm), max(timeout, 300), threads)
        if _session.size > 1:
            if timeout > 0:
                _session.start_watchdog(timeout)
            _end_all_after_an_exception()
    atexit.register(_session.finish)
    return _session


def session() -> _dlrm.Session:
    return _session or init()


def rank() -> int:
    """This rank's number, from 0."""
    return session().rank


def size() -> int:
    """The number of ranks."""
    return session().size


def _handle(comm):
    if comm is None:
        try:
            from mpi4py import MPI
        except ImportError as missing:
            raise ImportError("several ranks need mpi4py (Debian: python3-mpi4py)") from missing
        comm = MPI.COMM_WORLD
    return comm.py2f()


def _end_all_after_an_exception():
    """Without this the other ranks would wait for a rank that has ended."""
    print_traceback = sys.excepthook

    def hook(kind, value, traceback):
        print_traceback(kind, value, traceback)
        sys.stdout.flush()
        sys.stderr.flush()
        if issubclass(kind, KeyboardInterrupt):
            _session.end_all(STOPPED, "")
        elif isinstance(value, _dlrm.Error):
            _session.end_all(value.code, str(value))
        else:
            line = " ".join(str(value).split())
            _session.end_all(FAILURE, f"rank {_session.rank}: {kind.__name__}: {line}")

    sys.excepthook = hook
