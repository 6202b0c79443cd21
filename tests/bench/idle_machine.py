"""Measures only while nothing else runs: waits until the machine is idle, and repeats what others disturbed."""
import os
import time

import core_pace

TICKS = os.sysconf("SC_CLK_TCK")
SLOWNESS_MOST = 0.08


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


class Disturbance:
    """Of one figure: `others`, the share of the machine's time that other programs took; `slowness`, see core_pace."""

    def __init__(self, others, slowness):
        self.others, self.slowness = others, slowness


class IdleMachine:
    """`others_most`: share of the machine's time that other programs may take; `slowness_most`: by which a core may fall
    behind its best pace before and after a figure; `patience`: seconds to wait for an idle machine; `tries` at most."""

    def __init__(self, others_most=0.04, slowness_most=SLOWNESS_MOST, patience=0.0, tries=1, pace=None):
        self.others_most, self.slowness_most = others_most, slowness_most
        self.patience, self.tries = patience, tries
        self.pace = pace or core_pace.CorePace()

    def wait(self):
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            busy, total = machine_seconds()
            time.sleep(0.3)
            busy_after, total_after = machine_seconds()
            if busy_after - busy <= self.others_most * (total_after - total):
                return

    def measure(self, call, faster, pid=None):
        """What `call` gives, in a try that nothing disturbed, and the try's Disturbance. Where each of the tries was
        disturbed, it is what `faster(a, b)` makes of them, for other work only ever slows. `pid`: a running process that does
        the work, where it is not one that `call` starts and ends."""
        best = None
        for _ in range(self.tries):
            self.wait()
            value, disturbance = self.try_once(call, pid)
            calm = disturbance.others <= self.others_most and disturbance.slowness <= self.slowness_most
            best = (faster(best[0], value) if best else value), disturbance
            if calm:
                break
        return best

    def try_once(self, call, pid):
        slowness = self.pace.slowness()
        own = children_seconds() + (process_seconds(pid) if pid else 0)
        busy, total = machine_seconds()
        value = call()
        busy_after, total_after = machine_seconds()
        own = children_seconds() + (process_seconds(pid) if pid else 0) - own
        others = max(0.0, (busy_after - busy - own) / max(total_after - total, 1 / TICKS))
        return value, Disturbance(others, max(slowness, self.pace.slowness()))
