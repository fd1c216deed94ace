#!/usr/bin/env python3
"""What the exporter takes from training steps of PyTorch on a real GPU, and what its page says that it takes.

    training.py EXPORTER [--variants session,multi,perf] [--loads small,large] [--rounds 3] [--seconds 1.5] [--warm-up 0]

One process trains; the exporter in each variant and no exporter take turns. Prints, for each kind of
step, the steps a second without the exporter and with it as a ratio (median, least and greatest of the
rounds), and beside it what gpusnoop_overhead_seconds_total explains of the loss. Needs root and PyTorch.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True  # leave the source tree as it is
import compare  # noqa: E402

LOADS = ("elementwise", "small", "transformer", "large")
PATIENCE = 60  # seconds for the exporter to attach
NO_HOST = "host: {time: {enabled: false}, life: {enabled: false}, tasks: {enabled: false}, memory: {enabled: false}}\n"
NO_FUNCTIONS = "functions: {enabled: false}\n"
# What the configuration has besides the label pid: the attach modes, and what is left out to see what it costs.
VARIANTS = {
    **{mode: "".join(f"{probe}: {{attach: {mode}}}\n" for probe in ("cuda", "torch", "functions"))
       for mode in ("session", "multi", "perf")},
    "no_functions": NO_FUNCTIONS,
    "no_torch_functions": "functions: {groups: {torch: {enabled: false}}}\n",
    "no_host": NO_HOST,
    "cuda_only": NO_FUNCTIONS + NO_HOST,
    # Every launch from its start to its end, whatever it costs.
    "full": "cuda: {max_overhead: 0}\n",
    "full_multi": "".join(f"{probe}: {{attach: multi}}\n" for probe in ("torch", "functions"))
                  + "cuda: {attach: multi, max_overhead: 0}\n",
    "driver_only": NO_FUNCTIONS + NO_HOST + 'cuda: {max_overhead: 0, libraries: ["libcuda.so*"]}\n',
}


def make_steps(torch):
    """Steps by name: those of small tensors wait for the host, those of large ones for the GPU."""
    device = "cuda"
    nn = torch.nn

    def trained(model, example):
        model = model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = model(example).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()
        return step

    tensor = torch.ones(64, device=device)

    def elementwise():
        for _ in range(100):
            tensor.mul_(1.0)
        return tensor[0].item()

    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
    return {
        "elementwise": elementwise,
        "small": trained(nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(8)]),
                         torch.randn(32, 256, device=device)),
        "transformer": trained(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
                               torch.randn(8, 64, 256, device=device)),
        "large": trained(nn.Sequential(*[nn.Linear(8192, 8192, bias=False) for _ in range(2)]).bfloat16(),
                         torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)),
    }


def train():
    """Answers each line "LOAD SECONDS" with the number of steps and how long they took, in ns."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    steps = make_steps(torch)
    for step in steps.values():
        for _ in range(3):
            step()
    print("ready", flush=True)
    for line in sys.stdin:
        load, seconds = line.split()
        step, done = steps[load], 0
        step()
        begin = time.monotonic_ns()
        until = begin + float(seconds) * 1e9
        while time.monotonic_ns() < until:
            step()
            done += 1
        print(done, time.monotonic_ns() - begin, flush=True)


class Exporter:
    def __init__(self, binary, variant):
        self.folder = tempfile.TemporaryDirectory()
        config = Path(self.folder.name, "config.yaml")
        config.write_text("labels: {pid: true}\n" + VARIANTS[variant], encoding="utf-8")
        self.log = Path(self.folder.name, "log")
        self.process = subprocess.Popen([binary, f"--config.file={config}", "--web.listen-address=127.0.0.1:0"],
                                        stdout=subprocess.DEVNULL, stderr=self.log.open("w"))
        until = time.monotonic() + PATIENCE
        while not (found := re.search(r'msg="listening".* port=(\d+)', self.log.read_text(encoding="utf-8"))):
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit(f"the exporter does not start: {self.log.read_text(encoding='utf-8')}")
            time.sleep(0.05)
        self.url = f"http://127.0.0.1:{found[1]}/metrics"

    def page(self):
        return compare.Page.read(self.url)

    def stop(self):
        begin = time.monotonic()
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()
        return time.monotonic() - begin


def main():
    if sys.argv[1:] == ["--train"]:
        return train()
    parser = argparse.ArgumentParser()
    parser.add_argument("exporter")
    parser.add_argument("--variants", default="session,multi,perf")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--warm-up", type=float, default=0,
                        help="seconds of each load before it is measured: a limit is held on average over some 10 s")
    options = parser.parse_args()
    loads = options.loads.split(",")
    trainer = subprocess.Popen([sys.executable, __file__, "--train"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if trainer.stdout.readline() != "ready\n":
        sys.exit("the training process ended by itself")
    own = {"pid": str(trainer.pid)}

    def run(load, seconds=options.seconds):
        trainer.stdin.write(f"{load} {seconds}\n")
        trainer.stdin.flush()
        steps, took = map(int, trainer.stdout.readline().split())
        return steps / took * 1e9

    def attach(variant):
        """An exporter that counts the trainer's launches: twice the same number for the same steps."""
        begin = time.monotonic()
        exporter = Exporter(options.exporter, variant)
        started = time.monotonic() - begin
        library = "libcuda.so" if variant == "driver_only" else "libcudart"
        while not re.search(f'msg="attached".*{library}', exporter.log.read_text(encoding="utf-8")):
            if time.monotonic() > begin + PATIENCE:
                sys.exit(f"the exporter attaches to nothing: {exporter.log.read_text(encoding='utf-8')}")
            time.sleep(0.1)
        run("elementwise", 0.1)
        while not exporter.page().sum("gpusnoop_cuda_kernel_launches_total", own):
            if time.monotonic() > begin + PATIENCE:
                sys.exit(f"the exporter counts no launches: {exporter.log.read_text(encoding='utf-8')}")
            run("elementwise", 0.1)
        print(f"{variant}: listening after {started:.2f} s, counting after {time.monotonic() - begin:.2f} s", flush=True)
        time.sleep(1)  # what it does at the start
        return exporter

    variants = options.variants.split(",")
    ratios = {(variant, load): [] for variant in variants for load in loads}
    lines = {}
    for at in range(options.rounds):
        for variant in variants:
            if variant == "perf" and at > 0:
                continue  # detaching takes long
            bare = {load: run(load) for load in loads}
            exporter = attach(variant)
            for load in loads:
                run(load, options.warm_up)
                before = exporter.page()
                rate = run(load)
                after = exporter.page()
                ratios[variant, load].append(rate / bare[load])

                def grown(metric):
                    return after.sum("gpusnoop_" + metric, own) - before.sum("gpusnoop_" + metric, own)
                lines[variant, load] = (
                    f"{bare[load]:9.1f} steps/s, {grown('cuda_kernel_launches_total') / options.seconds:9.0f} launches/s, page's overhead "
                    f"{grown('overhead_seconds_total') / options.seconds * 100:5.2f} % of a core")
            lost = after.sum("gpusnoop_probe_events_lost_total", {})
            took = exporter.stop()
            again = {load: run(load) for load in loads}  # the machine may have drifted
            for load in loads:
                ratios[variant, load][-1] *= bare[load] / ((bare[load] + again[load]) / 2)
                print(f"  {load} {ratios[variant, load][-1]:.3f} of {lines[variant, load]}")  # if it is cut off
            print(f"{variant}: stopped after {took:.2f} s, lost events {lost:.0f}", flush=True)
    for (variant, load), of in ratios.items():
        print(f"{variant:18} {load:12} {statistics.median(of):.3f} ({min(of):.3f} to {max(of):.3f}) of {lines[variant, load]}", flush=True)
    trainer.stdin.close()
    trainer.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
