"""Times PyTorch's operations for comparison with `dlrm-bench kernels`.

usage: python3 -m dlrm.bench.torch_kernels KERNELS.jsonl [--seconds S] [--output OUT.json]

Sizes, operations and the kind of device come from the file that `dlrm-bench kernels --output` wrote.
Operations without an equivalent in PyTorch are left out. The exit code is 2 if PyTorch, or its GPU,
is missing.
"""
from __future__ import annotations


import json
import sys
import time

from ..endings import Parser, Refused, program
from ..figures import read_json

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

LEARNING_RATE = 1e-3
POOL_WINDOW = 7
ZIPF = 1.05


class Clock:
    """Best time of a call in seconds; on a GPU measured by events around a group of calls."""

    def __init__(self, device, seconds):
        self.device = device
        self.seconds = seconds

    def _group(self, call, calls):
        if self.device == "cuda":
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(calls):
                call()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1e-3 / calls
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - begin) / calls

    def of(self, call):
        call()
        best = self._group(call, 1)
        calls = int(min(max(0.02 / best, 1), 1000))
        end = time.perf_counter() + self.seconds
        done = 0
        while done < 3 or time.perf_counter() < end:
            best = min(best, self._group(call, calls))
            done += 1
        return best


def draw_ids(rows, count, alpha, device):
    """The power law of the synthetic models; alpha 0 is uniform."""
    g = 1 - alpha
    u = torch.rand(count, dtype=torch.float64, device=device)
    ids = (u * ((rows + 1.0) ** g - 1) + 1) ** (1 / g) - 1
    return ids.long().clamp_(0, rows - 1)


def lookups(sizes, device):
    """Tables one after another: PyTorch has no operation on several tables."""
    for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
        tables = [torch.rand(sizes["rows"], sizes["width"], device=device, dtype=dtype)
                  for _ in range(sizes["tables"])]
        offsets = torch.arange(sizes["batch"], device=device) * sizes["hotness"]
        for law, alpha in (("uniform", 0), ("zipf", ZIPF)):
            ids = [draw_ids(sizes["rows"], sizes["batch"] * sizes["hotness"], alpha, device)
                   for _ in tables]

            def look_up():
                for table, i in zip(tables, ids):
                    F.embedding_bag(i, table, offsets, mode="sum")

            yield f"lookup {name}, {law} ids", look_up


def updates(sizes, device):
    bags = [torch.nn.EmbeddingBag(sizes["rows"], sizes["width"], mode="sum", sparse=True,
                                  device=device) for _ in range(sizes["tables"])]
    offsets = torch.arange(sizes["batch"], device=device) * sizes["hotness"]
    gradient = torch.rand(sizes["batch"], sizes["width"], device=device)
    optimizer = torch.optim.Adagrad([p for bag in bags for p in bag.parameters()],
                                    lr=LEARNING_RATE)
    for law, alpha in (("uniform", 0), ("zipf", ZIPF)):
        ids = [draw_ids(sizes["rows"], sizes["batch"] * sizes["hotness"], alpha, device)
               for _ in bags]
        pooled = [bag(i, offsets) for bag, i in zip(bags, ids)]

        def update():
            optimizer.zero_grad(set_to_none=True)
            for p in pooled:
                p.backward(gradient, retain_graph=True)
            optimizer.step()

        yield f"group and update, {law} ids", update


def dots(sizes, device):
    count, width = sizes["features"] + 1, sizes["width"]
    lower = torch.tril_indices(count, count, offset=-1, device=device)
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        x = torch.rand(sizes["batch"], width, device=device, dtype=dtype, requires_grad=True)
        e = torch.rand(sizes["batch"], count - 1, width, device=device, requires_grad=True)

        def forward():
            v = torch.cat([x[:, None, :], e.to(dtype)], dim=1)
            products = torch.bmm(v, v.transpose(1, 2))
            return torch.cat([x, products[:, lower[0], lower[1]]], dim=1)

        z = forward()
        gradient = torch.rand_like(z)

        def quiet_forward():
            with torch.no_grad():
                forward()

        def backward():
            torch.autograd.grad(z, (x, e), gradient, retain_graph=True)

        yield f"dot {name} forward", quiet_forward
        yield f"dot {name} backward", backward


def crosses(sizes, device):
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        x0, u, x, dy, dx0 = (torch.rand(sizes["batch"], sizes["crossed"], device=device, dtype=dtype)
                             for _ in range(5))

        def backward():
            dx0.addcmul_(u, dy)
            torch.mul(x0, dy)

        yield f"cross {name} forward", lambda: torch.addcmul(x, x0, u)
        yield f"cross {name} backward", backward


def linears(sizes, device):
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        layer = torch.nn.Linear(sizes["layer"], sizes["layer"], device=device, dtype=dtype)
        x = torch.rand(sizes["batch"], sizes["layer"], device=device, dtype=dtype, requires_grad=True)
        y = F.relu(layer(x))
        gradient = torch.rand_like(y)
        wanted = (x, layer.weight, layer.bias)

        def forward():
            with torch.no_grad():
                F.relu(layer(x))

        yield f"linear {name} forward, relu", forward
        yield f"linear {name} backward, relu", lambda: torch.autograd.grad(
            y, wanted, gradient, retain_graph=True)


def dense(sizes, device):
    elements = (sizes["batch"], sizes["features"] * sizes["width"])
    wide = torch.rand(*elements, device=device)
    yield "convert fp32 to bf16", lambda: wide.to(torch.bfloat16)
    yield "find non-finite fp32", lambda: torch.isfinite(wide).all()
    pooled = wide[:, None, :]
    yield "average pool forward", lambda: F.avg_pool1d(
        pooled, POOL_WINDOW, ceil_mode=True, count_include_pad=False)
    blocks = [torch.rand(sizes["batch"], sizes["width"], device=device)
              for _ in range(sizes["features"])]
    yield "copy blocks", lambda: torch.cat(blocks, dim=1)
    logits = torch.rand(sizes["batch"], device=device, requires_grad=True)
    labels = torch.rand(sizes["batch"], device=device)

    def loss():
        value = F.binary_cross_entropy_with_logits(logits, labels)
        torch.autograd.grad(value, logits)

    yield "cross-entropy", loss
    for name, optimizer in (("sgd", torch.optim.SGD), ("adagrad", torch.optim.Adagrad),
                            ("adam", torch.optim.Adam)):
        parameter = torch.nn.Parameter(torch.rand(sizes["parameters"], device=device))
        parameter.grad = torch.rand(sizes["parameters"], device=device)
        yield f"dense {name}", optimizer([parameter], lr=LEARNING_RATE).step


def run(words: list[str]) -> None:
    parser = Parser(prog="python3 -m dlrm.bench.torch_kernels", description=__doc__.splitlines()[0])
    parser.add_argument("kernels", help="JSON lines of dlrm-bench kernels")
    parser.add_argument("--seconds", type=float, default=0.2, help="time spent on each figure")
    parser.add_argument("--output", help="write JSON here")
    arguments = parser.parse_args(words)
    if torch is None:
        raise Refused("PyTorch is not installed")
    with open(arguments.kernels, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    ours = lines[0]
    device = "cuda" if ours["device"].startswith("cuda") else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise Refused("PyTorch sees no GPU")
    torch.backends.cuda.matmul.allow_tf32 = True
    asked = {row["name"]: row["milliseconds"] for row in lines if "name" in row}
    groups = {"lookup": lookups, "group and update": updates, "dot": dots, "cross ": crosses,
              "linear": linears, "": dense}
    clock = Clock(device, arguments.seconds)
    rows = []
    print(f"{'operation':<34} {'here, ms':>10} {'PyTorch':>10} {'ratio':>7}")
    for prefix, make in groups.items():
        if not any(name.startswith(prefix) for name in asked):
            continue
        for name, call in make(ours["sizes"], device):
            if name not in asked:
                continue
            try:
                milliseconds = clock.of(call) * 1e3
            except RuntimeError as error:
                print(f"{name:<34} PyTorch: {str(error).splitlines()[0]}")
                continue
            rows.append({"name": name, "milliseconds": milliseconds})
            print(f"{name:<34} {asked[name]:>10.4f} {milliseconds:>10.4f} "
                  f"{milliseconds / asked[name]:>6.2f}x")
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "device": device, "kernels": rows}, file,
                      indent=2)
            file.write("\n")


main = program(run)

if __name__ == "__main__":
    sys.exit(main())
