"""The record: one JSON, one Markdown table."""
import datetime
import glob
import hashlib
import json
import os
import platform

from libraries import answer

STATUSES = ("passed", "below goal", "failed", "skipped", "cut short")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def describe(session, command):
    record = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
              "command": command, "emulated": session.emulated, "processor": processor(), "cpus": os.cpu_count()}
    if session.emulated:
        return {**record, "gpu": "none: the emulator"}
    found = session.facts.get("card", {})
    return {**record, "gpu": found.get("name", ""), "driver": found.get("driver_version", ""),
            "gpu_memory": found.get("memory.total", "")}


def build(session):
    program = os.path.join(session.bin, "dlrm-train")
    return {"version": answer([program, "--version"], session.env), "program": fingerprint(program)}


def fingerprint(path):
    """An identifier of the build."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()[:16]


def has_gpu():
    return answer(["nvidia-smi", "-L"]).startswith("GPU 0") or bool(glob.glob("/dev/nvidia[0-9]*"))


def counts(steps):
    found = [step["status"] for step in steps]
    return ", ".join(f"{found.count(status)} {status}" for status in STATUSES if status in found or status == "failed")


def verdict(row):
    return {None: "", True: "yes", False: "no"}[row["met"]]


def lines_of(step):
    if step["status"] not in ("passed", "below goal"):
        words = f"{step['status']}: {step['detail']}" if step["detail"] else step["status"]
        yield step["name"], "", words, "", ""
    for row in step["rows"]:
        yield step["name"], row["what"], row["measured"], row["goal"], verdict(row)


def markdown(head, steps):
    lines = ["# GPU acceptance", ""]
    if head["emulated"]:
        lines += ["Made by the emulator: it shows that the steps run. No figure here says anything of a GPU.", ""]
    lines += [f"- {key}: {value}" for key, value in head.items() if value not in ("", None)]
    lines += ["", "| step | what | measured | goal | met |", "|---|---|---|---|---|"]
    for step in steps:
        lines += ["| " + " | ".join(map(cell, words)) + " |" for words in lines_of(step)]
    lines += ["", "## Steps", "", "| step | status | seconds | at most |", "|---|---|---|---|"]
    lines += [f"| {step['key']} | {step['status']} | {step['seconds']:g} | {step['limit']:g} |" for step in steps]
    lines += ["", "## Commands", "", "```"]
    lines += [command for step in steps for command in step["commands"]]
    return "\n".join(lines + ["```", ""])


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def write(output, head, steps, facts):
    texts = {"record.json": json.dumps({**head, "steps": steps, **facts}, indent=1) + "\n",
             "record.md": markdown(head, steps)}
    for name, text in texts.items():
        path = os.path.join(output, name)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".tmp", path)
