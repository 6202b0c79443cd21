"""Commands with a time limit that leave no processes behind."""
import ctypes
import os
import signal
import subprocess
import time


class Skip(Exception):
    """The reason why a step cannot run here."""


class Failure(Exception):
    """The reason why a step failed."""


class Run:
    """A command that has ended."""

    def __init__(self, code, seconds, ended_by, log):
        self.code, self.seconds, self.log = code, seconds, log
        self.ended_by = ended_by  # None: itself; "limit", "session" or "silence": us

    @property
    def timed_out(self):
        return self.ended_by is not None

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def last_lines(self, count):
        return [line.rstrip()[:300] for line in self.text().splitlines() if line.strip()][-count:]

    def last_line(self):
        return (self.last_lines(1) or ["no output"])[0].strip()

    def expect_success(self, what):
        if self.ended_by == "session":
            raise Skip(f"{what}: ended after {self.seconds:.0f} s, as no time was left")
        if self.ended_by == "silence":
            raise Failure(f"{what}: hung after {self.seconds:.0f} s: {self.last_line()}")
        if self.ended_by == "limit":
            raise Failure(f"{what}: no end within {self.seconds:.0f} s: {self.last_line()}")
        if self.code != 0:
            raise Failure(f"{what}: exit code {self.code}: {self.last_line()}")


def run_command(command, log, limit, cwd, env, limit_is="limit", silence=None, watch=None):
    """Runs in a session of its own. `silence`: seconds without output after which it counts as hung.
    `watch` is called again and again while it runs, and once afterwards."""
    begin = time.monotonic()
    with open(log, "w", encoding="utf-8") as file:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=cwd,
                                       env=env, start_new_session=True, preexec_fn=end_with_parent)
        except FileNotFoundError:
            raise Skip(f"{command[0]} is not installed") from None
        ended_by = None
        try:
            ended_by = wait_for(process, begin, limit, limit_is, log, silence, watch)
        finally:
            end_session(process, gently=ended_by is not None and os.path.basename(command[0]) == "mpirun")
    if watch:
        watch()
    return Run(process.returncode, time.monotonic() - begin, ended_by, log)


def wait_for(process, begin, limit, limit_is, log, silence, watch):
    """None if it ended by itself."""
    pause = 0.005
    while process.poll() is None:
        if watch:
            watch()
        now = time.monotonic()
        if now - begin > limit:
            return limit_is
        if silence and now - begin > silence and time.time() - os.stat(log).st_mtime > silence:
            return "silence"
        time.sleep(pause)
        pause = min(0.1, 2 * pause)
    return None


def end_with_parent():
    """If the acceptance is killed, its command must not keep the GPU. 1 is PR_SET_PDEATHSIG."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def members(session):
    """Living processes of a session. mpirun's ranks have their own process groups, but share its session."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, _, _, of = file.read().rsplit(")", 1)[1].split()[:4]
        except (OSError, ValueError):
            continue
        if int(of) == session and state != "Z":
            found.append(int(name))
    return found


def end_session(process, gently):
    """mpirun ends its ranks itself. A single program would save first, which takes longer than the time left."""
    if gently and process.poll() is None:
        send(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            pass
    for _ in range(60):
        left = members(process.pid)
        if not left:
            break
        for pid in left:
            send(pid, signal.SIGKILL)
        process.poll()
        time.sleep(0.05)
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        process.returncode = -9  # in the kernel's hands: the driver has not let it go


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
