"""The record: one JSON, one Markdown table."""
import datetime
import json
import os
import platform
import shutil
import subprocess


def answer(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


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
    name, driver, memory = (fields.splitlines() or [", , "])[0].split(", ")[:3]
    version = answer([os.path.join(session.bin, "dlrm-train"), "--version"])
    return {**record, "gpu": name, "driver": driver, "gpu_memory": memory, "gpus": len(fields.splitlines()),
            "version": version}


def has_gpu():
    return shutil.which("nvidia-smi") is not None and answer(["nvidia-smi", "-L"]).startswith("GPU 0")


def verdict(row, record):
    if row["met"] is None:
        return ""
    return "yes" if row["met"] else "no"


def markdown(head, records):
    lines = ["# GPU acceptance", ""]
    if head["emulated"]:
        lines += ["Made by the emulator: it shows that the steps run. No figure here says anything of a GPU.", ""]
    lines += [f"- {key}: {value}" for key, value in head.items() if value not in ("", None)]
    for group, title in (("proof", "Proofs"), ("benchmark", "Benchmarks")):
        lines += ["", f"## {title}", "", "| step | what | measured | goal | met |", "|---|---|---|---|---|"]
        for record in (r for r in records if r["group"] == group):
            if not record["rows"]:
                lines.append(f"| {record['name']} | | {record['status']}: {cell(record['detail'])} | | |")
            for row in record["rows"]:
                words = (record["name"], row["what"], row["measured"], row["goal"], verdict(row, record))
                lines.append("| " + " | ".join(cell(word) for word in words) + " |")
    lines += ["", "## Commands", "", "```"]
    lines += [command for record in records for command in record["commands"]]
    return "\n".join(lines + ["```", ""])


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def write(session, head):
    facts = {key: value for key, value in session.facts.items()}
    texts = {"record.json": json.dumps({**head, "steps": session.records, **facts}, indent=1) + "\n",
             "record.md": markdown(head, session.records)}
    for name, text in texts.items():
        path = os.path.join(session.output, name)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".tmp", path)
