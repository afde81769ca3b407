"""Trains an exported path further with transformers, and imports what it saves.

    finetune.py PATHLOOM PATH_LOGITS EXPORT CORPUS WORK

Exports go in as the folder EXPORT. After each of ten steps, and for each form in which
transformers can save the model, Pathloom's logits of the saved folder must be those of
transformers. Two of them also become the base of a run, which is served. Prints one
line per check, which begins with "ok" or "FAILED". Exit code 1 if a check failed, 77 if
a package is missing.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.request

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
pathloom, path_logits, exported, corpus, work = sys.argv[1:6]
try:
    import numpy as np
    import torch
    import transformers
except ImportError as missing:
    print(f"SKIP   fine-tuning: {missing}; see tests/job/export_oracle.sh")
    sys.exit(77)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
torch.manual_seed(1)
failed = 0
STEPS, MOST = 10, 1e-3
TEXT = "static int count(const char *text)\n{\n    return text ? 1 : 0;\n}\n" * 3


def check(good, what):
    global failed
    failed += not good
    print(f"{'ok    ' if good else 'FAILED'} {what}", flush=True)


def our_logits(folder, ids):
    np.asarray(ids, dtype="<i4").tofile(f"{work}/ids.bin")
    subprocess.run([path_logits, folder, f"{work}/ids.bin", f"{work}/rows.bin"], check=True)
    return np.fromfile(f"{work}/rows.bin", dtype="<f4").reshape(len(ids), -1)


def their_logits(model, ids):
    model.eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def compare(what, ours, theirs):
    difference = float(np.abs(ours - theirs).max())  # NaN counts as different
    check(difference <= MOST, f"{what}: largest difference {difference:.1e} (at most {MOST:.0e})")


def load(folder, kind="AutoModelForCausalLM"):
    return getattr(transformers, kind).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )


def save(name, model, tokenizer, **how):
    folder = f"{work}/{name}"
    model.save_pretrained(folder, **how)
    tokenizer.save_pretrained(folder)
    return folder


def serves(name, folder, ids, theirs):
    """Makes the model the base of a run, and compares the scores that `serve` answers."""
    yaml, run = f"{work}/{name}.yaml", f"{work}/{name}.run"
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([pathloom, "import", folder, "--out", yaml], **quiet)
    keys = ["topology.levels=2", "train.phases=1", "train.tau=4", "train.batch=4"]
    keys += ["eval.baselines=none", "workers.precision=f32", "router.prefix=8"]
    keys += ["data.valid_share=0.2", "eval.sample_tokens=0"]
    options = [word for key in keys for word in ("--set", key)]
    subprocess.run([pathloom, "train", yaml, "--corpus", corpus, "--out", run, *options], **quiet)
    command = [pathloom, "serve", "--run", run, "--listen", "127.0.0.1:*", "--threads", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        at = next(line.split(" at ")[1].strip() for line in server.stdout if " at http" in line)
        body = {"model": "base", "prompt": ids, "echo": True, "logprobs": 0, "max_tokens": 0}
        request = urllib.request.Request(f"{at}/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=120) as answer:
            scores = json.load(answer)["choices"][0]["logprobs"]["token_logprobs"]
    finally:
        server.kill()
    rows = theirs.astype(np.float64)
    rows -= np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True))
    rows -= theirs.max(1, keepdims=True)
    wanted = rows[np.arange(len(ids) - 1), ids[1:]]
    compare(f"{name}: scores of the served base", np.array(scores[1:]), wanted)
    shutil.rmtree(run)


tokenizer, model = transformers.AutoTokenizer.from_pretrained(exported), load(exported)
ids = tokenizer(TEXT)["input_ids"][: model.config.max_position_embeddings]
start = their_logits(model, ids)
compare("as exported", our_logits(exported, ids), start)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(1, STEPS + 1):
    model.train()
    loss = model(torch.tensor([ids]), labels=torch.tensor([ids])).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    folder = save("tuned", model, tokenizer)
    compare(f"step {step}, loss {loss:.3f}", our_logits(folder, ids), their_logits(model, ids))
tuned = their_logits(model, ids)
check(float(np.abs(tuned - start).max()) > 0.1, "ten steps have changed the logits")
check(os.path.exists(f"{folder}/tokenizer.json"), "transformers has saved tokenizer.json")
check(not os.path.exists(f"{folder}/tokenizer.model"), "and no tokenizer.model")
serves("tuned", folder, ids, tuned)

folder = save("sharded", model, tokenizer, max_shard_size="100KB")
parts = len([name for name in os.listdir(folder) if name.endswith(".safetensors")])
compare(f"in {parts} shards", our_logits(folder, ids), tuned)
check(parts > 1, "the model has several shards")
for kind in (torch.float16, torch.bfloat16):
    name = str(kind).removeprefix("torch.")
    folder = save(name, load(f"{work}/tuned").to(kind), tokenizer)
    compare(name, our_logits(folder, ids), their_logits(load(folder), ids))
other = load(f"{work}/tuned")
if model.config.tie_word_embeddings:
    folder = save("headless", load(f"{work}/tuned", "AutoModel"), tokenizer)
    compare("saved without the head", our_logits(folder, ids), tuned)
    other.config.tie_word_embeddings = False
    head = torch.nn.Linear(*reversed(other.lm_head.weight.shape), bias=False)
    head.weight.data = other.lm_head.weight.data * 0.9
    other.lm_head = head
    folder = save("untied", other, tokenizer, max_shard_size="100KB")
else:
    other.config.tie_word_embeddings = True
    other.tie_weights()
    folder = save("retied", other, tokenizer)
theirs = their_logits(load(folder), ids)
compare(os.path.basename(folder), our_logits(folder, ids), theirs)
serves(os.path.basename(folder), folder, ids, theirs)
sys.exit(1 if failed else 0)
