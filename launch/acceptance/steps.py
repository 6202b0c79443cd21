"""Steps, their measurements and verdicts. No step can lose the results of another."""
import os
import shlex
import time

from commands import Failure, Skip, run_command

LEAST = 5  # seconds; with less left no step begins
TAIL = 15  # lines of a failed step's last log that the record keeps


class Session:
    """Folders of programs and output, the steps to run, and the time left."""

    def __init__(self, root, bin_dir, scratch, seconds, emulated=False, quick=False, wanted=None, changed=None):
        self.root, self.bin, self.scratch = root, bin_dir, scratch
        self.emulated, self.quick = emulated, quick
        self.wanted = wanted or (lambda group, key: True)
        self.changed = changed or (lambda: None)  # called whenever there is more to write down
        self.env = {}
        self.end = time.monotonic() + seconds
        self.limit_end = self.end
        self.records = []
        self.last_run = None
        self.facts = {}  # what one step measured and another needs

    def left(self):
        return self.end - time.monotonic()

    def program(self, name):
        path = os.path.join(self.bin, name)
        if not os.access(path, os.X_OK):
            raise Skip(f"{name} is not in {self.bin}")
        return path

    def config(self, name):
        return os.path.join(self.root, "configs", name)

    def run(self, name, command, env=None, silence=None):
        """Runs a command within the rest of the step's limit. All processes that it started end with it."""
        words = [f"{key}={value}" for key, value in (env or {}).items()] + list(command)
        self.records[-1]["commands"].append(" ".join(shlex.quote(w) for w in words))
        limit_is = "limit" if self.limit_end <= self.end else "session"
        limit = max(1.0, min(self.limit_end, self.end) - time.monotonic())
        self.last_run = None
        self.last_run = run_command(command, os.path.join(self.scratch, name + ".log"), limit, self.root,
                                    {**os.environ, **self.env, **(env or {})}, limit_is, silence)
        return self.last_run

    def step(self, group, key, name, limit, body):
        """body(session) gives rows (what, measured, goal, met), best one by one; raises Skip or Failure."""
        if not self.wanted(group, key):
            return
        record = {"group": group, "key": key, "name": name, "status": "cut short", "detail": "", "rows": [],
                  "commands": [], "seconds": 0}
        self.records.append(record)
        self.last_run = None
        begin = time.monotonic()
        self.limit_end = begin + limit
        try:
            if self.left() < min(limit, LEAST):
                raise Skip("no time was left")
            for row in body(self) or []:
                record["rows"].append(dict(zip(("what", "measured", "goal", "met"), row)))
                self.changed()
            missed = any(row["met"] is False for row in record["rows"])
            record["status"] = "below goal" if missed else "passed"
        except Skip as reason:
            record.update(status="skipped", detail=str(reason))
        except Failure as reason:
            record.update(status="failed", detail=str(reason))
        except Exception as error:  # one step's surprise must not end the others
            record.update(status="failed", detail=f"{type(error).__name__}: {error}")
        record["seconds"] = round(time.monotonic() - begin, 1)
        if record["status"] == "failed" and self.last_run:
            record["log"] = self.last_run.last_lines(TAIL)
        words = "; ".join(f"{row['what']}: {row['measured']}" for row in record["rows"])
        print(f"{record['status']:<10} {key} ({record['seconds']:.0f} s) {record['detail'] or words}", flush=True)
        self.changed()


def matches(word, group, key):
    """`losses` selects losses-dot-sgd-fp32 and similar keys, `proof` selects the group."""
    return word in (group, key) or key.startswith(word + "-")


def merged(old, new):
    """Merges the steps of two records. The newer counts, unless it has no result and the older has one."""
    together = {step["key"]: step for step in old}
    for step in new:
        known = together.get(step["key"])
        if not known or step["rows"] or step["status"] == "failed" or not known["rows"]:
            together[step["key"]] = step
    return list(together.values())
