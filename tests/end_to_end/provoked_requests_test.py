#!/usr/bin/env python3
"""Requests to dlrm-infer, right and wrong: the whole answers, compared with provoked_requests.json.

    provoked_requests_test.py FOLDER/OF/PROGRAMS [--update]

Digits of probabilities beyond the third, and times, are left out. With --update the file is written anew."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

from provoking import HERE, Provoking, main, program

SAMPLE = {"dense": [0.5, -1, 2.25, 3], "ids": {"tiny": [2], "middle": [499, 0, 7], "left": [4000], "right": [5, 5]}}


def with_ids(**ids):
    return {**SAMPLE, "ids": {**SAMPLE["ids"], **ids}}


WRONG = {
    "number": 3, "list": [], "text": "a" * 300, "no dense": {"ids": {}}, "dense": {**SAMPLE, "dense": 3},
    "few": {**SAMPLE, "dense": [1, 2, 3]}, "many": {**SAMPLE, "dense": [1] * 5}, "word": {**SAMPLE, "dense": [1, 2, "3", 4]},
    "null": {**SAMPLE, "dense": [1, 2, 3, None]}, "large": {**SAMPLE, "dense": [1e39, 2, 3, 4]}, "ids": {**SAMPLE, "ids": [3]},
    "key": {**SAMPLE, "bias": 1}, "feature": with_ids(rihgt=[1]), "bag": with_ids(right=1), "negative": with_ids(left=[3, -1]),
    "beyond": with_ids(tiny=[0, 3]), "real": with_ids(middle=[1, 2.5]), "huge": with_ids(middle=[2 ** 64 - 1]),
    "object": with_ids(middle=[{}]), "bags": with_ids(middle=[[1]])}
GOOD = {"whole": SAMPLE, "no ids": {"dense": SAMPLE["dense"]}, "empty": with_ids(middle=[], left=[]), "longer": with_ids(tiny=[0, 1, 2])}


def binary(version=1, count=1, dense=(0.5, -1, 2.25, 3), lengths=(1, 3, 1, 2), ids=(2, 499, 0, 7, 4000, 5, 5)):
    return struct.pack("<II", version, count) + struct.pack(f"<{len(dense)}f", *dense) + struct.pack(
        f"<{len(lengths)}I", *lengths) + struct.pack(f"<{len(ids)}q", *ids)


def post(body, kind="application/json", **headers):
    """The bytes of a request to predict."""
    body = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    lines = {"Host": "a", "Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close", **{
        name.replace("_", "-"): value for name, value in headers.items()}}
    return ("POST /predict HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
            + "\r\n").encode() + body


def get(path, method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


class ProvokedRequests(Provoking):
    expected = os.path.join(HERE, "provoked_requests.json")

    @classmethod
    def shown(cls, text):
        for pattern, to in [(re.escape(cls.folder), "FOLDER"), (r"\b(\d\.\d{3})\d{2,}", r"\1"), (r"\d\.\d+e-\d+", "SMALL"),
                            (r"(_bucket\{le=\"[0-9.]+\"\}|_seconds_sum|infer_connections) \S+", r"\1 N"), (r"^\d\d:\d\d:\d\d ", ""),
                            (r"at http://127.0.0.1:\d+", "at URL")]:
            text = re.sub(pattern, to, text, flags=re.M)
        return text.replace("\r", "").splitlines()

    @contextlib.contextmanager
    def serving(self, *words):
        """The port of a server. Its end is checked."""
        with open(self.path("log"), "w", encoding="utf-8") as log:
            server = subprocess.Popen([program("dlrm-infer"), *words, "--port", "0", "--threads", "1"], cwd=self.folder,
                                      stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = server.stdout.readline()
            self.assertRegex(line, r"^listening on http://127.0.0.1:\d+\n$")
            yield int(line.rsplit(":", 1)[1])
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(60), 0)
        finally:
            server.kill()
            server.wait()
            server.stdout.close()

    def log(self):
        with open(self.path("log"), encoding="utf-8") as file:
            return self.shown(file.read())

    @classmethod
    def ask(cls, port, request):
        """The status, the type and the text of the answer. A server that reads no more of a body may reset."""
        answer = b""
        with socket.create_connection(("127.0.0.1", port), 60) as connection, contextlib.suppress(ConnectionResetError):
            connection.sendall(request)
            while more := connection.recv(65536):
                answer += more
        head, _, body = answer.partition(b"\r\n\r\n")
        status, *headers = head.decode().split("\r\n")
        kind = [line for line in headers if line.startswith("Content-Type")]
        text = str(struct.unpack(f"<{len(body) // 4}f", body)) if "octet" in "".join(kind) else body.decode()
        return [status.partition(" ")[2], *kind, *cls.shown(text)]

    def test_answers(self):
        requests = {f"{name}": post({"samples": [SAMPLE, sample]}) for name, sample in {**WRONG, **GOOD}.items()}
        requests |= {"body " + name: post(body) for name, body in {
            "none": "", "list": [], "no samples": {}, "two keys": {"samples": [], "more": 1}, "samples": {"samples": 3},
            "no JSON": "{\"samples\": [}", "no number": "{\"samples\": [1e999]}", "ten": {"samples": [SAMPLE] * 10},
            "no sample": {"samples": []}, "large": {"samples": [SAMPLE] * 40}, "byte": b"\xff", "deep": "[" * 3000}.items()}
        requests |= {"binary " + name: post(body, "application/octet-stream") for name, body in {
            "good": binary(), "version": binary(2), "none": b"", "short": b"\1\0\0", "count": binary(1, 2),
            "count of ids": binary(lengths=(1, 3, 1, 3)), "id": binary(ids=(3, 499, 0, 7, 4000, 5, 5)),
            "negative id": binary(ids=(2, 499, 0, 7, 4000, 5, -5)), "dense": binary(dense=(1, 2, float("nan"), 3)),
            "infinite": binary(dense=(1, float("inf"), 2, 3)), "rest": binary() + b"\0", "many": binary(1, 2 ** 32 - 1),
            "two": binary(1, 2, (1, 2, 3, 4, 5, 6, 7, 8), (1, 0, 0, 0, 0, 0, 0, 1), (2, 4000))}.items()}
        requests |= {"form": post("a", "multipart/form-data; boundary=b"), "packed": post("a", Content_Encoding="gzip"),
                     "type": post({"samples": [SAMPLE]}, "text/plain"), "longer than it says": post("{} ", Content_Length="2"),
                     "chunks": post(
                         "5\r\n{\"sam\r\n10\r\nples\": [3]}     \r\n0\r\n\r\n", Content_Length=None, Transfer_Encoding="chunked")}
        for path in ("/model", "/health", "/", "/predict", "/predict/", "/metrics?a=b"):
            requests["GET " + path] = get(path)
        requests |= {"POST /model": get("/model", "POST"), "DELETE /health": get("/health", "DELETE"),
                     "HEAD /health": get("/health", "HEAD")}
        found = {}
        with self.serving("ckpt", "--reload-interval", "0", "--timeout", "1") as port:
            cut = self.ask(port, post({"samples": [SAMPLE]})[:-9])
        with self.serving("ckpt", "--reload-interval", "0", "--max-body", "0.002", "--timeout", "60") as port:
            for name, request in requests.items():
                found[name] = self.ask(port, request)
            found["GET /metrics"] = self.ask(port, get("/metrics"))
        self.compare("answers", {**found, "cut": cut, "log": self.log()})

    def test_kinds_of_tables(self):
        found = {}
        for kind in ("fp32", "bf16", "int8", "mapped"):
            with self.serving(self.checkpoint, "--tables", kind) as port:
                for name, request in {"answer": post({"samples": list(GOOD.values())}), "metrics": get("/metrics"),
                                      "model": get("/model")}.items():
                    found[f"{kind}: {name}"] = self.ask(port, request)
            found[kind + ": log"] = self.log()
        self.compare("tables", found)

    def wait_for_log(self, text):
        """Until the server has written it. A server that never does runs into the limit of the test."""
        while not any(text in line for line in self.log()):
            time.sleep(0.01)

    def test_newer_checkpoints(self):
        """A checkpoint of another model, a damaged one, and a good one, while the server runs."""
        shutil.rmtree(self.path("served"), ignore_errors=True)
        shutil.copytree(self.path("ckpt"), self.path("served"))
        train = ("dlrm-train config.yaml --set data.test= --set eval.at_end=false --set checkpoint.at_end=true --set "
                 "train.threads=1 --set output.directory=more ")
        for words in ("--set train.steps=3 --set checkpoint.directory=other --set model.tables.big.rows=4002",
                      "--set train.steps=4 --set checkpoint.directory=newer --resume=ckpt"):
            code, text = self.run_program(train + words)
            self.assertEqual(code, 0, text)

        def publish(source, step, change=lambda folder: None):
            name = f"step_{step:09}"
            shutil.copytree(self.path(f"{source}/{name}"), self.path("served/.new"))
            change(self.path("served/.new"))
            os.rename(self.path("served/.new"), self.path("served/" + name))

        with self.serving("served", "--reload-interval", "0.01") as port:
            publish("other", 3)
            self.wait_for_log("its features are not")
            refused = self.ask(port, get("/model"))
            publish("newer", 4)
            self.wait_for_log("now ")
            found = {"refused": refused, "model": self.ask(port, get("/model")),
                     "metrics": self.ask(port, get("/metrics"))}
        found["log"] = self.log()
        self.compare("newer checkpoints", found)

    def test_lines(self):
        lines = {**WRONG, **GOOD}
        given = "".join((json.dumps(sample) if not isinstance(sample, str) else sample) + "\n" for sample in lines.values())
        given += "\n{\"dense\": [1e999]}\n" + " " * ((16 << 20) + 1) + "\n" + " " * ((16 << 20) - 1) + "3\n" + json.dumps(SAMPLE)
        found = {}
        for size in ("1", "3", "256"):
            done = subprocess.run([program("dlrm-infer"), "ckpt", "--batch-size", size, "--threads", "1"], input=given,
                                  capture_output=True, text=True, cwd=self.folder, check=True)
            found[f"batches of {size}"] = self.shown(done.stdout)
            found[f"batches of {size}: log"] = self.shown(done.stderr)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([program("dlrm-infer"), "ckpt", "--threads", "1"], input=given.encode(), stdout=full,
                                  stderr=subprocess.PIPE, cwd=self.folder, check=False)
        found["full"] = [done.returncode, *self.shown(done.stderr.decode())]
        folder = os.open(self.folder, os.O_RDONLY)  # cannot be read as a file
        done = subprocess.run([program("dlrm-infer"), "ckpt", "--threads", "1"], stdin=folder, capture_output=True, text=True,
                              cwd=self.folder, check=False)
        os.close(folder)
        found["folder"] = [done.returncode, *self.shown(done.stderr)]
        self.compare("lines", found)


if __name__ == "__main__":
    main()
