"""GoogleTest programs on a device. After one failing kernel the rest of its process fails too."""
import re

from commands import Failure, Skip

MOST_STARTS = 12
SILENCE = 60  # seconds: no test of these takes half of it


def finished(text):
    """({test: passed}, the test that was running at the end or None)."""
    results, running = {}, None
    for word, test in re.findall(r"^\[( RUN      |       OK |  FAILED  |  SKIPPED )\] ([^\s,(]+\.[^\s,(]+)", text, re.M):
        if word == " RUN      ":
            running = test
        else:
            if word != "  SKIPPED ":
                results[test] = word == "       OK "
            running = None if test == running else running
    return results, running


def suite(session, name, gtest_filter, partial=False):
    """Runs the tests of the filter. After a failure the rest runs in a new process, because an error of a GPU persists.
    `partial`: if time runs out, the tests that have passed count."""
    program = session.program(name)
    passed, broken = set(), {}
    for start in range(MOST_STARTS):
        done = sorted(passed | set(broken))
        flags = session.path(f"{name}-{start}.flags")
        with open(flags, "w", encoding="utf-8") as file:
            file.write(f"--gtest_filter={gtest_filter}-{':'.join(done)}\n--gtest_fail_fast\n")
        run = session.run(f"{name}-{start}", [program, f"--gtest_flagfile={flags}"], silence=SILENCE)
        results, running = finished(run.text())
        passed |= {test for test, good in results.items() if good}
        failed = [test for test, good in results.items() if not good]
        if running:
            failed.append(running)
        broken.update({test: run for test in failed})
        if run.ended_by in ("limit", "session"):
            broken.pop(running, None)
            if partial and passed and not broken:
                return [("tests", f"{len(passed)} passed when time ended", "", None)]
            raise_unfinished(name, run, passed, broken)
        if not failed:
            if not broken:
                run.expect_success(name)
            break
    if broken:
        raise Failure(f"{len(broken)} failed, {len(passed)} passed: {', '.join(sorted(broken)[:6])}")
    if not passed:
        raise Failure(f"{name}: no test of devices was run; is this a build with CUDA?")
    return [("tests", f"{len(passed)} passed", "all", True)]


def raise_unfinished(name, run, passed, broken):
    words = f"{name}: {len(passed)} passed when its time ended after {run.seconds:.0f} s"
    if broken:
        raise Failure(f"{words}; failed: {', '.join(sorted(broken)[:6])}")
    if run.ended_by == "session":
        raise Skip(words)
    raise Failure(f"{words}: {run.last_line()}")
