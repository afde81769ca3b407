"""A small PyTorch trainer, similar to nanoGPT, with which pathloom is compared.

It trains the model of torch_step.py with AdamW (weight decay for matrices only), the
gradient clipped to 1, torch.compile, products in bf16 and parameters in fp32. Samples
are random windows of all tokens in one long row.

The trainer reads the tokens that pathloom wrote (the folder data of a run). It measures
the loss of the same held-out tokens as pathloom's report: windows of each document,
without the first --prefix tokens. So the losses of both trainers can be compared.

    python bench/rivals/nano.py RUN/data --steps 1000 --lr 2e-3 --batch 8
    python bench/rivals/nano.py RUN/data --score FOLDER    (a model that pathloom exported)
    python bench/rivals/nano.py RUN/data --time 20 --clock cpu --threads 1

The schedule is pathloom's wsd: warm-up, constant, and a linear fall to 0 over the last
part. Prints JSON lines: one per --every steps, and at the end nats per counted token.
"""

import argparse
import json
import math
import struct
import time

import numpy as np
import torch
from torch import nn

from torch_step import Model


class Tokens:
    """A token file (docs/PROTOCOL.md, section 5): token ids and the document table."""

    def __init__(self, path):
        with open(path, "rb") as file:
            head = file.read(64)
        if head[:8] != b"PLTOK\r\n\x1a":
            raise SystemExit(f"nano.py: {path} is not a token file of pathloom")
        _, width, self.vocab, n_docs, _, _, n_tokens = struct.unpack_from("<6IQ", head, 8)
        kind = np.uint16 if width == 2 else np.uint32
        self.ids = np.memmap(path, kind, "r", 64, (n_tokens,))
        entry = np.dtype([("first", "<u8"), ("n", "<u4"), ("domain", "<u4"), ("hash", "<u8")])
        at = (64 + n_tokens * width + 7) // 8 * 8
        self.docs = np.memmap(path, entry, "r", at, (n_docs,))

    def batch(self, random, batch, context):
        starts = random.integers(0, len(self.ids) - context - 1, batch)
        rows = np.stack([self.ids[s:s + context + 1] for s in starts]).astype(np.int64)
        rows = torch.from_numpy(rows)
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def windows(self, context, prefix):
        """Yields (first token, length, targets to skip) of each window that counts."""
        for doc in self.docs:
            first, n_targets = int(doc["first"]), int(doc["n"]) - 1
            for at in range(0, n_targets, context):
                length = min(context, n_targets - at)
                skip = max(0, prefix - at - 1)
                if skip < length:
                    yield first + at, length, skip


@torch.no_grad()
def held_out_loss(model, tokens, a):
    """Returns the mean nats of the counted targets, and their number."""
    windows = list(tokens.windows(a.context, a.prefix))
    nats, counted = 0.0, 0
    for begin in range(0, len(windows), 32):
        some = windows[begin:begin + 32]
        x = torch.zeros(len(some), a.context, dtype=torch.long)
        y = torch.full((len(some), a.context), -100, dtype=torch.long)
        for row, (first, length, skip) in enumerate(some):
            ids = torch.from_numpy(tokens.ids[first:first + length + 1].astype(np.int64))
            x[row, :length] = ids[:-1]
            y[row, skip:length] = ids[1 + skip:]
        n = int((y >= 0).sum())
        with torch.autocast("cpu", torch.bfloat16, enabled=a.precision == "autocast"):
            nats += model(x, y).item() * n
        counted += n
    return nats / counted, counted


def initialize(model, blocks):
    """As in nanoGPT: deviation 0.02, less for matrices that add to the residual."""
    for name, p in model.named_parameters():
        if p.dim() == 2:
            into_stream = name.endswith(("o.weight", "down.weight"))
            nn.init.normal_(p, std=0.02 / math.sqrt(2 * blocks) if into_stream else 0.02)


def rate(a, step):
    left = a.steps - step
    decay = round(a.decay * a.steps)
    if step < a.warmup:
        return a.lr * (step + 1) / a.warmup
    return a.lr * min(1.0, left / decay) if decay else a.lr


def make(a):
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    model = Model(a)
    initialize(model, a.blocks)
    groups = [dict(params=[p for p in model.parameters() if p.dim() == 2], weight_decay=0.1),
              dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=a.lr, betas=(0.9, 0.95), eps=1e-8, fused=True)
    return model, optimizer, torch.compile(model) if a.mode == "compile" else model


def step_once(model, loss_of, optimizer, batch, a):
    with torch.autocast("cpu", torch.bfloat16, enabled=a.precision == "autocast"):
        loss = loss_of(*batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def train(tokens, held_out, a):
    model, optimizer, loss_of = make(a)
    random = np.random.default_rng(a.seed)
    for step in range(a.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(a, step)
        loss = step_once(model, loss_of, optimizer, tokens.batch(random, a.batch, a.context), a)
        if (step + 1) % a.every == 0:
            print(json.dumps(dict(step=step + 1, loss=round(loss.item(), 4))), flush=True)
    nats, counted = held_out_loss(model, held_out, a)
    print(json.dumps(dict(steps=a.steps, lr=a.lr, seed=a.seed, nats=nats, counted=counted,
                          ppl=math.exp(nats))), flush=True)


def measure(tokens, a):
    """Prints the best time of --time steps; five earlier steps compile and warm up."""
    now = time.process_time if a.clock == "cpu" else time.perf_counter
    model, optimizer, loss_of = make(a)
    random = np.random.default_rng(a.seed)
    best = math.inf
    for step in range(5 + a.time):
        batch = tokens.batch(random, a.batch, a.context)
        begin = now()
        step_once(model, loss_of, optimizer, batch, a)
        if step >= 5:
            best = min(best, now() - begin)
    print(json.dumps(dict(step_seconds=best, clock=a.clock, threads=a.threads,
                          precision=a.precision, mode=a.mode)))


def exported(folder):
    """Yields (name, tensor) for each tensor of model.safetensors."""
    with open(folder + "/model.safetensors", "rb") as file:
        data = file.read()
    size = struct.unpack_from("<Q", data)[0]
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            array = np.frombuffer(data[8 + size + begin:8 + size + end], np.float32)
            yield name, torch.from_numpy(array.copy()).view(t["shape"])


def score(held_out, a):
    """Prints the loss of a model that pathloom exported, to check that both programs
    compute the same loss."""
    model = Model(a)
    t = dict(exported(a.score))
    state = {"embed.weight": t["model.embed_tokens.weight"], "norm.weight": t["model.norm.weight"],
             "cos": model.cos, "sin": model.sin}
    for b in range(a.blocks):
        layer = f"model.layers.{b}."
        for ours, parts in (("attn_norm", ("input_layernorm",)),
                            ("ffn_norm", ("post_attention_layernorm",)),
                            ("qkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
                            ("o", ("self_attn.o_proj",)), ("down", ("mlp.down_proj",)),
                            ("gate_up", ("mlp.gate_proj", "mlp.up_proj"))):
            state[f"blocks.{b}.{ours}.weight"] = torch.cat(
                [t[layer + part + ".weight"] for part in parts])
    model.load_state_dict(state)
    nats, counted = held_out_loss(model, held_out, a)
    print(json.dumps(dict(nats=nats, counted=counted, ppl=math.exp(nats))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="the folder `data` of a run of pathloom")
    for key, value in (("steps", 1000), ("batch", 8), ("context", 128), ("width", 128),
                       ("blocks", 4), ("heads", 4), ("head", 0), ("ffn", 344), ("warmup", 40),
                       ("threads", 2), ("seed", 1), ("prefix", 32), ("every", 100), ("time", 0)):
        parser.add_argument("--" + key, type=int, default=value)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=0.4,
                        help="share of the steps, at the end, in which the rate falls to 0")
    parser.add_argument("--precision", default="autocast", choices=("autocast", "f32"))
    parser.add_argument("--mode", default="compile", choices=("compile", "eager"))
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"))
    parser.add_argument("--score", metavar="FOLDER",
                        help="train nothing; print the loss of the exported model in FOLDER")
    a = parser.parse_args()
    a.device, a.head = "cpu", a.head or a.width // a.heads
    held_out = Tokens(a.data + "/valid.tok")
    a.vocab = held_out.vocab
    if a.score:
        return score(held_out, a)
    tokens = Tokens(a.data + "/train.tok")
    return measure(tokens, a) if a.time else train(tokens, held_out, a)


if __name__ == "__main__":
    main()
