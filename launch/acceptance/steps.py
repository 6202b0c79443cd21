"""Steps: commands with a time limit, what they measured, and whether that was right."""
import os
import shlex
import signal
import subprocess
import time


class Skip(Exception):
    """Why a step cannot be made here."""


class Failure(Exception):
    """What was wrong."""


class Run:
    """A command that has ended."""

    def __init__(self, code, seconds, timed_out, log):
        self.code, self.seconds, self.timed_out, self.log = code, seconds, timed_out, log

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def last_line(self):
        lines = [line for line in self.text().splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else "no output"

    def expect_success(self, what):
        if self.timed_out:
            raise Failure(f"{what}: no end within {self.seconds:.0f} s")
        if self.code != 0:
            raise Failure(f"{what}: exit code {self.code}: {self.last_line()}")


class Session:
    """Where programs lie, where output goes, and how much time is left."""

    def __init__(self, root, bin_dir, output, seconds, emulated, quick):
        self.root, self.bin, self.output = root, bin_dir, output
        self.emulated, self.quick = emulated, quick
        self.end = time.monotonic() + seconds
        self.records = []
        self.limit_end = self.end
        self.commands = []
        self.facts = {}  # what one step measured and another needs

    def left(self):
        return self.end - time.monotonic()

    def program(self, name):
        path = os.path.join(self.bin, name)
        if not os.access(path, os.X_OK):
            raise Skip(f"{name} is not in {self.bin}")
        return path

    def folder(self, name):
        path = os.path.join(self.output, name)
        os.makedirs(path, exist_ok=True)
        return path

    def config(self, name):
        return os.path.join(self.root, "configs", name)

    def run(self, name, command, env=None):
        """Runs within what is left of the step's limit; all that it started ends with it."""
        log = os.path.join(self.output, name + ".log")
        words = [f"{key}={value}" for key, value in (env or {}).items()] + list(command)
        self.commands.append(" ".join(shlex.quote(w) for w in words))
        limit = max(1.0, min(self.limit_end, self.end) - time.monotonic())
        begin = time.monotonic()
        with open(log, "w", encoding="utf-8") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                       cwd=self.root, env={**os.environ, **(env or {})}, start_new_session=True)
            timed_out = False
            try:
                code = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                timed_out = True
                end_group(process)
                code = -1
        return Run(code, time.monotonic() - begin, timed_out, log)

    def step(self, group, name, limit, body):
        """body(session) returns rows (what, measured, goal, met) or None; raises Skip or Failure."""
        record = {"group": group, "name": name, "status": "passed", "detail": "", "rows": []}
        begin = time.monotonic()
        self.limit_end = begin + limit
        self.commands = []
        try:
            if self.left() < min(limit, 5):
                raise Skip("no time was left")
            record["rows"] = [dict(zip(("what", "measured", "goal", "met"), row)) for row in body(self) or []]
            if any(row["met"] is False for row in record["rows"]):
                record["status"] = "below goal"
        except Skip as reason:
            record.update(status="skipped", detail=str(reason))
        except Failure as reason:
            record.update(status="failed", detail=str(reason))
        except Exception as error:  # one step's surprise must not end the others
            record.update(status="failed", detail=f"{type(error).__name__}: {error}")
        record["seconds"] = round(time.monotonic() - begin, 1)
        record["commands"] = self.commands
        self.records.append(record)
        words = "; ".join(f"{row['what']}: {row['measured']}" for row in record["rows"])
        print(f"{record['status']:<10} {name} ({record['seconds']:.0f} s) {record['detail'] or words}", flush=True)


def end_group(process):
    """mpirun ends its ranks itself; a program alone would save first, which takes longer than there is."""
    first = signal.SIGTERM if os.path.basename(process.args[0]) == "mpirun" else signal.SIGKILL
    for wait, number in ((5, first), (None, signal.SIGKILL)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(timeout=wait)
            return
        except subprocess.TimeoutExpired:
            continue
