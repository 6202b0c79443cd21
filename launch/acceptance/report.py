"""The record: one JSON, one Markdown table."""
import datetime
import glob
import hashlib
import json
import os
import platform

from libraries import answer
from steps import merged

STATUSES = ("passed", "below goal", "failed", "skipped", "cut short")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def describe(session, command):
    record = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
              "command": command, "emulated": session.emulated, "quick": session.quick,
              "processor": processor(), "cpus": os.cpu_count()}
    if session.emulated:
        return {**record, "gpu": "none: the emulator", "driver": ""}
    fields = answer(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    name, driver, memory = (((fields.splitlines() or [""])[0]).split(", ") + ["", "", ""])[:3]
    version = answer([os.path.join(session.bin, "dlrm-train"), "--version"], session.env)
    return {**record, "gpu": name, "driver": driver, "gpu_memory": memory, "gpus": len(fields.splitlines()),
            "version": version, "program": fingerprint(os.path.join(session.bin, "dlrm-train")), "library_path": session.env.get("LD_LIBRARY_PATH", "")}


def fingerprint(path):
    """An identifier of the build."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()[:16]


def has_gpu():
    return answer(["nvidia-smi", "-L"]).startswith("GPU 0") or bool(glob.glob("/dev/nvidia[0-9]*"))


def alike(one, other):
    return all(one.get(key) == other.get(key) for key in ("gpu", "driver", "version", "program", "emulated"))


def read(path):
    """(head, steps, facts) of a record.json."""
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    at = list(record).index("steps")
    return {key: record[key] for key in list(record)[:at]}, record["steps"], \
        {key: record[key] for key in list(record)[at + 1:]}


def joined(records):
    """Merges records of the same GPU and build. Later ones override earlier ones."""
    head, steps, facts = records[0]
    for new_head, new_steps, new_facts in records[1:]:
        if not alike(head, new_head):
            raise ValueError("records of different GPUs or builds do not make one")
        command = head["command"]
        if new_head["command"] not in command.split("; "):
            command += "; " + new_head["command"]
        head = {**new_head, "command": command}
        steps = merged(steps, new_steps)
        runs = {**facts.get("runs", {}), **new_facts.get("runs", {})}
        facts = {**facts, **new_facts, **({"runs": runs} if runs else {})}
    return head, steps, facts


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
    for group, title in (("proof", "Proofs"), ("benchmark", "Benchmarks")):
        lines += ["", f"## {title}", "", "| step | what | measured | goal | met |", "|---|---|---|---|---|"]
        for step in (step for step in steps if step["group"] == group):
            lines += ["| " + " | ".join(map(cell, words)) + " |" for words in lines_of(step)]
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
