"""What machine this is, and whether programs start on it."""
import socket

from commands import Failure
from libraries import answer, found

CARD = ("name", "memory.total", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "temperature.gpu",
        "ecc.mode.current")
GIB = 2.0**30


def card():
    """The first GPU as nvidia-smi describes it, by the names in CARD, or {}."""
    for names in (CARD, CARD[:3]):  # a driver may not know all of them
        fields = answer(["nvidia-smi", "--query-gpu=" + ",".join(names), "--format=csv,noheader"])
        if fields:
            return dict(zip(names, fields.splitlines()[0].split(", ")))
    return {}


def card_gib(session):
    """The GPU's memory. An emulated one counts as small."""
    words = session.facts.get("card", {}).get("memory.total", "").split()
    return float(words[0]) * 2**20 / GIB if words else 0


def name_resolves():
    try:
        socket.gethostbyname(socket.gethostname())
        return True
    except OSError:
        return False


def resolve_own_name():
    """MPI and NCCL look up the machine's name."""
    if name_resolves():
        return "resolves"
    try:
        with open("/etc/hosts", "a", encoding="utf-8") as file:
            file.write(f"127.0.0.1 {socket.gethostname()}\n")
    except OSError as error:
        return f"does not resolve, and {error}"
    return "added to /etc/hosts" if name_resolves() else "does not resolve"


def look_around(session):
    if not session.emulated:
        yield "card", ", ".join(f"{key} {value}" for key, value in session.facts.get("card", {}).items()), "", None
        yield "the machine's name", resolve_own_name(), "", None
    for name, path in found(session.program("dlrm-train"), session.env):
        yield name, path, "", None
    need = [] if session.emulated else ["--need-gpu"]
    run = session.run("preflight", [session.program("dlrm-preflight"), "--folder", session.scratch, *need])
    checks = run.text().splitlines()
    for line in checks:
        if line.startswith(("ok ", "failed ")):
            yield f"preflight, {line[8:21].strip()}", line[22:], "ok", line.startswith("ok")
    failed = [line for line in checks if line.startswith("failed ")]
    if failed:
        raise Failure(failed[0])
    run.expect_success("dlrm-preflight")
