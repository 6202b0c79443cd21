"""The same models in PyTorch, on the same GPU."""
import json
import os
import shutil

from benchmarks import rate
from commands import Skip

CASES = (("dle_mlp", 65536), ("dle_mlp", 2048), ("kaggle", 16384))  # config, batch


def python_with_torch(session):
    for python in dict.fromkeys(filter(None, (shutil.which("python3"), "/usr/bin/python3"))):
        run = session.run("torch", [python, "-c", "import torch, yaml; print(torch.__version__); "
                                                  "raise SystemExit(not torch.cuda.is_available())"],
                          env=own_libraries(), limit=30)
        if run.code == 0:
            return python
    raise Skip("PyTorch with a GPU is not installed")


def own_libraries():
    """PyTorch has its own."""
    return {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}


def pytorch(session):
    python = python_with_torch(session)
    for config, batch in CASES:
        name = f"{config}-{batch}"
        ours = f"bench-{name}"
        yield from rate(session, ours, f"bench/{config}.yaml", {"train.tf32": "true"}, batch, 400, limit=15)
        run = session.run(f"torch-{name}", [python, os.path.join(session.root, "tests/bench/pytorch_dlrm.py"),
                                            session.config(f"bench/{config}.yaml"), "--device", "cuda", "--batch", str(batch),
                                            "--threads", "1", "--seconds", "2"], env=own_libraries(), limit=30)
        run.expect_success("pytorch_dlrm.py")
        theirs = json.loads(run.last_line())
        session.facts.setdefault("pytorch", {})[name] = theirs
        ratio = session.facts["runs"][ours]["steady_samples_per_second"] / theirs["samples_per_second"]
        yield f"PyTorch, {name}", f"{theirs['step_ms']:.2f} ms a step; ours is {ratio:.2f} times as fast", "", None
