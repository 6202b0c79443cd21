"""Steps, their measurements and verdicts. No step can lose the results of another."""
import contextlib
import os
import shlex
import time

from commands import Failure, Skip, run_command

LEAST = 4  # seconds; with less left no step begins
TAIL = 15  # lines of a failed step's last log that the record keeps


class Session:
    """Folders of programs and output, the steps to run, and the time left."""

    def __init__(self, root, bin_dir, scratch, seconds, emulated=False, wanted=None, changed=None, pace=1.0):
        self.root, self.bin, self.scratch = root, bin_dir, scratch
        self.emulated = emulated
        self.wanted = wanted or (lambda key: True)
        self.changed = changed or (lambda: None)  # called whenever there is more to write down
        self.pace = pace  # all limits are multiplied by it
        self.env = {}
        self.end = time.monotonic() + seconds
        self.part_end = self.limit_end = self.end
        self.records = []
        self.last_run = None
        self.facts = {}  # what one step measured and another needs

    def program(self, name):
        path = os.path.join(self.bin, name)
        if not os.access(path, os.X_OK):
            raise Skip(f"{name} is not in {self.bin}")
        return path

    def config(self, name):
        return os.path.join(self.root, "configs", name)

    def path(self, name):
        return os.path.join(self.scratch, name)

    @contextlib.contextmanager
    def part(self, seconds):
        """The steps within take at most so long together."""
        self.part_end = min(self.end, time.monotonic() + self.pace * seconds)
        yield
        self.part_end = self.end

    def run(self, name, command, env=None, silence=None, limit=None, watch=None):
        """Runs a command within the rest of the step's limit, or within `limit` seconds. All processes that it started end
        with it."""
        words = [f"{key}={value}" for key, value in (env or {}).items()] + list(command)
        self.records[-1]["commands"].append(" ".join(shlex.quote(w) for w in words))
        end = self.limit_end if limit is None else min(self.limit_end, time.monotonic() + self.pace * limit)
        limit_is = "limit" if end <= self.part_end else "session"
        seconds = max(0.2, min(end, self.part_end) - time.monotonic())
        self.last_run = None
        self.last_run = run_command(command, self.path(name + ".log"), seconds, self.root,
                                    {**os.environ, **self.env, **(env or {})}, limit_is, silence, watch)
        return self.last_run

    def add(self, what, measured, goal="", met=None):
        """Adds a row to the step that runs, and has it written down."""
        self.records[-1]["rows"].append({"what": what, "measured": measured, "goal": goal, "met": met})
        self.changed()

    def step(self, key, name, limit, body):
        """body(session) gives rows (what, measured, goal, met), best one by one; raises Skip or Failure."""
        if not self.wanted(key):
            return
        record = {"key": key, "name": name, "status": "cut short", "detail": "", "rows": [], "commands": [],
                  "seconds": 0, "limit": limit}
        self.records.append(record)
        self.last_run = None
        begin = time.monotonic()
        self.limit_end = begin + self.pace * limit
        if self.limit_end - self.part_end < self.pace:  # alone in its part
            self.limit_end = min(self.limit_end, self.part_end)
        try:
            if self.part_end - begin < self.pace * min(limit, LEAST):
                raise Skip("no time was left")
            for row in body(self) or []:
                self.add(*row)
            missed = any(row["met"] is False for row in record["rows"])
            record["status"] = "below goal" if missed else "passed"
        except Skip as reason:
            record.update(status="skipped", detail=str(reason))
        except Failure as reason:
            record.update(status="failed", detail=str(reason))
        except Exception as error:  # one step's surprise must not end the others
            record.update(status="failed", detail=f"{type(error).__name__}: {error}")
        finally:
            record["seconds"] = round(time.monotonic() - begin, 1)
        if record["status"] == "failed" and self.last_run:
            record["log"] = self.last_run.last_lines(TAIL)
        words = "; ".join(f"{row['what']}: {row['measured']}" for row in record["rows"])
        print(f"{record['status']:<10} {key} ({record['seconds']:.0f} s) {record['detail'] or words}", flush=True)
        self.changed()


def matches(word, key):
    """`losses` selects losses-dot-sgd-fp32 and similar keys."""
    return word == key or key.startswith(word + "-")
