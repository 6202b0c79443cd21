"""Measures only while nothing else runs: waits until the machine is idle, and repeats what others disturbed."""
import os
import time

TICKS = os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """CPU seconds that all cores have been busy, and that have passed on them."""
    with open("/proc/stat", encoding="utf-8") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / TICKS, sum(ticks) / TICKS


def process_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def children_seconds():
    """Of the processes that this one started and that have ended, and of itself."""
    return sum(os.times()[:4])


class IdleMachine:
    """`others_most`: share of the machine's time that other programs may take; `patience`: seconds to wait for it."""

    def __init__(self, others_most=0.04, patience=0.0):
        self.others_most, self.patience = others_most, patience

    def wait(self):
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            busy, total = machine_seconds()
            time.sleep(0.3)
            busy_after, total_after = machine_seconds()
            if busy_after - busy <= self.others_most * (total_after - total):
                return

    def measure(self, call, pid=None):
        """What `call` gives, and the share of the machine that others took meanwhile; the least disturbed try. `pid`:
        a running process that does the work, where it is not one that `call` starts and ends."""
        end = time.monotonic() + self.patience
        best = None
        while True:
            self.wait()
            own = children_seconds() + (process_seconds(pid) if pid else 0)
            busy, total = machine_seconds()
            value = call()
            busy_after, total_after = machine_seconds()
            own = children_seconds() + (process_seconds(pid) if pid else 0) - own
            others = max(0.0, (busy_after - busy - own) / max(total_after - total, 1 / TICKS))
            if best is None or others < best[1]:
                best = value, others
            if best[1] <= self.others_most or time.monotonic() >= end:
                return best
