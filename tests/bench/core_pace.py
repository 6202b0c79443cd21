"""How fast the cores run at the moment. On a virtual machine a neighbour's work on the same physical core slows a core by
a third or more for seconds at a time, and nothing in /proc tells so: a loop of fixed length does."""
import os
import statistics
import struct
import time

ITERATIONS, TURNS = 150_000, 5  # some 10 ms a turn


def turn_seconds():
    start = time.perf_counter()
    x = 1
    for _ in range(ITERATIONS):
        x = (x * 3 + 1) & 0xFFFFF
    return time.perf_counter() - start


def measure_and_end(core, pipe):
    os.sched_setaffinity(0, {core})
    os.write(pipe, struct.pack("d", statistics.median(turn_seconds() for _ in range(TURNS))))
    os._exit(0)


def seconds_of_all_cores():
    """Of the slowest core, while all of them are at work."""
    reading, writing = os.pipe()
    children = [os.fork() or measure_and_end(core, writing) for core in sorted(os.sched_getaffinity(0))]
    os.close(writing)
    for child in children:
        os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as file:
        return max(seconds for seconds, in struct.iter_unpack("d", file.read()))


class CorePace:
    """`slowness()`: the share by which the slowest core falls behind the best pace ever seen."""

    def __init__(self, seconds=seconds_of_all_cores, calibrations=20):
        self.seconds = seconds
        self.best = min(seconds() for _ in range(calibrations))

    def slowness(self):
        now = self.seconds()
        self.best = min(self.best, now)
        return 1 - self.best / now
