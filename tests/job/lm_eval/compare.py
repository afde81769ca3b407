"""Compares the losses that lm-evaluation-harness got from the server with losses that
path_logits and `pathloom eval` compute.

    compare.py PATH_LOGITS WORK URL CONTEXT PREFIX MODEL ...

WORK/MODEL is an exported folder, WORK/out/MODEL has the harness's samples, and
WORK/eval.json is what `pathloom eval --json` printed. The model `auto` has no folder.
Prints one line per check, which begins with "ok" or "FAILED". Exit code 1 if one failed.
"""

import glob
import json
import math
import subprocess
import sys
import urllib.request

import numpy

path_logits, work, url = sys.argv[1:4]
context, prefix = int(sys.argv[4]), int(sys.argv[5])
models = sys.argv[6:]
BOS, EOS = 1, 2
NEAR = 2e-3  # allowed nats per sample: f32 sums depend on the order of adding
failed = 0


def check(good, what):
    global failed
    failed += not good
    print(f"{'ok    ' if good else 'FAILED'} {what}", flush=True)


def post(path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def tokens_of(text):
    return post("/tokenize", {"content": text})["tokens"]


def samples(model, task):
    (name,) = glob.glob(f"{work}/out/{model}/**/samples_{task}_*.jsonl", recursive=True)
    with open(name, encoding="utf-8") as file:
        return sorted(map(json.loads, file), key=lambda row: row["doc_id"])


def losses(model, sequences):
    """Returns the nats of each token except the first of each sequence, computed by the
    `ref` backend in f32. path_logits begins a new context where one is full, so each
    sequence is padded to a whole context."""
    rows = numpy.zeros((len(sequences), context), dtype=numpy.int32)
    for row, sequence in zip(rows, sequences):
        row[: len(sequence)] = sequence
    rows.tofile(f"{work}/tokens")
    subprocess.run([path_logits, f"{work}/{model}", f"{work}/tokens", f"{work}/logits"],
                   check=True)
    logits = numpy.fromfile(f"{work}/logits", dtype=numpy.float32).astype(numpy.float64)
    logits = logits.reshape(len(sequences), context, -1)
    found = []
    for row, sequence in zip(logits, sequences):
        n = len(sequence) - 1
        norm = numpy.log(numpy.exp(row[:n]).sum(axis=1))
        found.append(norm - row[numpy.arange(n), sequence[1:]])
    return found


def windows(ids):
    """Cuts a text into windows as the harness does. A text begins with BOS. A window scores
    up to context - 1 tokens. The last window begins earlier, so that it is full. Returns
    each window with the number of its last tokens that are scored."""
    ids = [BOS] + ids
    cut = []
    for at in range(0, len(ids) - 1, context - 1):
        end = min(at + context, len(ids))
        cut.append((ids[max(0, end - context) : end], end - at - 1))
    return cut


def rolling(model, task):
    rows = samples(model, task)
    cut = [windows(tokens_of(row["doc"]["text"])) for row in rows]
    sequences = [sequence for document in cut for sequence, _ in document]
    paths = paths_of(model, sequences)
    found = iter(losses_by_path(paths, sequences))
    for row, document in zip(rows, cut):
        row["ours"] = sum(next(found)[-n:].sum() for _, n in document)
        row["theirs"] = -float(row["resps"][0][0])
    worst = max(abs(row["ours"] - row["theirs"]) for row in rows)
    check(worst < NEAR, f"{model} {task}: {len(rows)} documents, "
          f"{sum(map(len, cut))} windows, at most {worst:.1e} nats apart")
    return rows, paths


def paths_of(model, sequences):
    """Returns the path that answers each sequence. For `auto`, asks the server."""
    if model != "auto":
        return [model] * len(sequences)
    return [post("/v1/completions", {"prompt": sequence, "max_tokens": 1})["model"]
            for sequence in sequences]


def losses_by_path(paths, sequences):
    found = [None] * len(sequences)
    for path in set(paths):
        mine = [i for i, of in enumerate(paths) if of == path]
        for i, row in zip(mine, losses(path, [sequences[i] for i in mine])):
            found[i] = row
    return found


def endings(model):
    """Compares the nats of each ending after its question, and the accuracy."""
    rows = samples(model, "endings")
    whole, begin, theirs = [], [], []
    for row in rows:
        for i in range(4):
            question, ending = row["arguments"][f"gen_args_{i}"].values()
            whole.append(tokens_of(question + ending))
            begin.append(len(tokens_of(question)) - 1)
            theirs.append(-float(row["filtered_resps"][i][0]))
    found = losses_by_path(paths_of(model, whole), whole)
    ours = [row[n:].sum() for row, n in zip(found, begin)]
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    check(worst < NEAR, f"{model} endings: {len(ours)} endings, at most {worst:.1e} nats "
          "apart")
    right = [ours[i : i + 4].index(min(ours[i : i + 4])) == row["doc"]["label"]
             for i, row in zip(range(0, len(ours), 4), rows)]
    (name,) = glob.glob(f"{work}/out/{model}/**/results_*.json", recursive=True)
    with open(name, encoding="utf-8") as file:
        told = json.load(file)["results"]["endings"]["acc,none"]
    check(told == sum(right) / len(right), f"{model} endings: accuracy {told:.3f}, ours "
          f"{sum(right) / len(right):.3f}")


def compare_eval(model, rows, paths):
    """Compares the sums with those of `pathloom eval`, which scores the end token of each
    document and not its prefix. The harness scores the prefix and not the end token, so
    the difference is computed here. Each document fits into one window."""
    with open(f"{work}/eval.json", encoding="utf-8") as file:
        told = json.load(file)
    ids = [[BOS] + tokens_of(row["doc"]["text"]) + [EOS] for row in rows]
    found = losses_by_path(paths, ids)
    nats = sum(row["theirs"] for row in rows)
    nats += sum(row[-1] - row[: prefix - 1].sum() for row in found)
    wanted = math.log(told["ppl_likelihood" if model == "auto" else f"ppl_{model}"])
    ours = nats / told["eval_tokens"]
    check(abs(ours - wanted) < 1e-4, f"{model} held_out: {ours:.6f} nats per token, "
          f"`pathloom eval` {wanted:.6f}")


for model in models:
    compare_eval(model, *rolling(model, "held_out"))
    rolling(model, "long")
    endings(model)
sys.exit(failed > 0)
