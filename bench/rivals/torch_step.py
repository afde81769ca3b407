"""Measures training steps of pathloom's model in PyTorch, to compare with `pathloom bench step`.

The model has RMSNorm, rotary embedding, SwiGLU, causal scaled_dot_product_attention and
a tied head; a step uses AdamW and clips the gradient norm to 1. This is the computation
of modules/model.c, written as a PyTorch user would write it. Prints one JSON line per
configuration; the best step counts, as in `pathloom bench step`. The first line has the
versions and the device.

    python bench/rivals/torch_step.py --batch 8 --context 128 --width 128 --blocks 4 \
        --vocab 2048 --threads 1,2 --precision f32,autocast,bf16 --mode eager,compile

    python bench/rivals/torch_step.py --device cuda --batch 16 --context 1024 \
        --width 896 --blocks 12 --heads 16 --head 64 --ffn 2368 --vocab 32000 \
        --precision equal,autocast,bf16 --mode compile,max-autotune \
        --attention flash,cudnn

precision: f32; autocast (fp32 parameters, bf16 products, fp32 residual stream); equal
(the same with the residual stream in bf16: pathloom's precisions); bf16 (parameters and
moments in bf16 too: fewer bytes to move, but less exact).
mode: eager, or a mode of torch.compile (compile is its default mode).
attention: auto (PyTorch chooses), or the only allowed way: flash, cudnn, efficient, math.
"""

import argparse
import contextlib
import itertools
import json
import platform
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads, head, ffn):
        super().__init__()
        self.heads, self.head = heads, head
        self.attn_norm = nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * heads * head, bias=False)
        self.o = nn.Linear(heads * head, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, eps=1e-5)
        self.gate_up = nn.Linear(width, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        qkv = self.qkv(self.attn_norm(x)).view(B, T, 3, self.heads, self.head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, self.heads * self.head))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


class Model(nn.Module):
    def __init__(self, a):
        super().__init__()
        half = a.head // 2
        self.stream = None  # the type of the residual stream; None: as embedded
        self.embed = nn.Embedding(a.vocab, a.width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(
            Block(a.width, a.heads, a.head, a.ffn) for _ in range(a.blocks))
        self.norm = nn.RMSNorm(a.width, eps=1e-5)
        angle = torch.outer(torch.arange(a.context).float(), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens, targets):
        x = self.embed(tokens).to(self.stream or self.embed.weight.dtype)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def only(attention):
    """Returns a context in which PyTorch may compute attention in only one way."""
    if attention == "auto":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel({"flash": SDPBackend.FLASH_ATTENTION,
                        "cudnn": SDPBackend.CUDNN_ATTENTION,
                        "efficient": SDPBackend.EFFICIENT_ATTENTION,
                        "math": SDPBackend.MATH}[attention])


def versions(device):
    line = dict(torch=torch.__version__, python=platform.python_version(), device=device)
    if device == "cuda":
        line.update(name=torch.cuda.get_device_name(), cuda=torch.version.cuda,
                    cudnn=torch.backends.cudnn.version())
    try:
        import triton
        line.update(triton=triton.__version__)
    except ImportError:
        pass
    return line


def measure(a, precision, mode, threads):
    now = time.process_time if a.clock == "cpu" else time.perf_counter
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    torch._dynamo.reset()
    model = Model(a).to(a.device)
    if precision == "bf16":
        model = model.to(torch.bfloat16)
    elif precision == "equal":
        model.stream = torch.bfloat16
    loss_of = model if mode == "eager" else torch.compile(
        model, mode="default" if mode == "compile" else mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=a.adamw == "fused",
                                  foreach=a.adamw == "foreach")
    tokens = torch.randint(a.vocab, (a.batch, a.context)).to(a.device)
    best, loss, start = float("inf"), None, time.perf_counter()
    for step in range(a.steps + 3):
        begin = now()
        with torch.autocast(a.device, torch.bfloat16, enabled=precision in ("autocast", "equal")):
            loss = loss_of(tokens, tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if a.device == "cuda":
            torch.cuda.synchronize()
        if step >= 3:
            best = min(best, now() - begin)
        if time.perf_counter() - start > a.seconds and step >= 4:
            break
    return best, loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for key, value in (("batch", 8), ("context", 128), ("width", 128), ("blocks", 4),
                       ("vocab", 2048), ("heads", 0), ("head", 0), ("ffn", 0),
                       ("steps", 20)):
        parser.add_argument("--" + key, type=int, default=value)
    parser.add_argument("--seconds", type=float, default=10,
                        help="time limit of one configuration")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--precision", default="f32,autocast,bf16")
    parser.add_argument("--mode", default="eager,compile")
    parser.add_argument("--attention", default="auto")
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"),
                        help="cpu: processor time, for one thread on a busy machine")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--adamw", default="fused", choices=("fused", "foreach"))
    a = parser.parse_args()
    a.heads = a.heads or a.width // 32
    a.head = a.head or a.width // a.heads
    a.ffn = a.ffn or (a.width * 8 // 3 + 31) // 32 * 32
    print(json.dumps(versions(a.device)), flush=True)
    for mode, threads, precision, attention in itertools.product(
            a.mode.split(","), map(int, a.threads.split(",")), a.precision.split(","),
            a.attention.split(",")):
        line = dict(mode=mode, threads=threads, precision=precision, attention=attention,
                    batch=a.batch, context=a.context, width=a.width, blocks=a.blocks,
                    heads=a.heads, head=a.head, vocab=a.vocab)
        try:
            with only(attention):
                seconds, loss = measure(a, precision, mode, threads)
            line.update(step_ms=round(seconds * 1e3, 2), loss=round(loss, 4),
                        tokens_per_s=round(a.batch * a.context / seconds))
        except Exception as error:  # for example a mode that does not work here
            line.update(error=(str(error).splitlines() or [repr(error)])[0][:200])
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
