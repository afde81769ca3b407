"""Compares what transformers and llama.cpp compute for an exported path with Pathloom.

    export_oracle.py PATHLOOM PATH_LOGITS RUN PATH WORK

Prints one line per check, which begins with "ok" or "FAILED", or with "SKIP" if a package
is missing. Exit code 1 if a check failed, 77 if nothing could be checked.
"""

import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import urllib.request

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
pathloom, path_logits, run, path, work = sys.argv[1:6]
checked = failed = 0
CHOSEN = 24  # number of tokens in a greedy text
PROMPTS = ("The ", "#include <std", "* Version 1.2: fixed ")
TEXT = (
    "int main(int argc, char **argv)\n{\n\tprintf(\"%d\\n\", 12345);\n\n\n\treturn 0;\n}\n"
    "The quick brown fox  jumps over the lazy dog; na\u00efve caf\u00e9, \u65e5\u672c\u8a9e.\n"
    "/* A comment that goes on. */\n#include <stdio.h>\n"
)


def check(good, what):
    global checked, failed
    checked += 1
    failed += not good
    print(f"{'ok    ' if good else 'FAILED'} {what}", flush=True)


def export(kind, form, out):
    subprocess.run(
        [pathloom, "export", "--run", run, "--path", path, "--type", kind]
        + ["--format", form, "--out", out],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return out


# ---- model.safetensors, read by hand ----
def read_header(name):
    with open(name, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), file.read()


def blob_hash(data):
    """Returns the hash under which a store keeps these bytes (docs/PROTOCOL.md, section 4)."""
    chunks = b"".join(
        hashlib.blake2b(data[i : i + (1 << 20)], digest_size=32, person=b"chunk").digest()
        for i in range(0, len(data), 1 << 20)
    )
    whole = struct.pack("<Q", len(data)) + chunks
    return hashlib.blake2b(whole, digest_size=32, person=b"blob").hexdigest()


def check_hashes(folder):
    """Checks that every module in the file has the bytes of its version in the store."""
    header, data = read_header(f"{folder}/model.safetensors")
    notes = header.pop("__metadata__")
    ends = sorted(entry["data_offsets"][1] for entry in header.values())
    at, matched = 0, 0
    wanted = [v.split()[1] for k, v in notes.items() if ".module." in k]
    for name in wanted:
        end = next((e for e in ends if e > at and blob_hash(data[at:e]) == name), None)
        if end is None:
            break
        at, matched = end, matched + 1
    check(
        matched == len(wanted) and at == len(data),
        f"hashes: {matched} of {len(wanted)} modules are the store's versions",
    )


# ---- what is compared ----
def log_softmax(np, rows):
    rows = rows.astype(np.float64)
    rows = rows - rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def perplexity(np, rows, ids):
    rows = log_softmax(np, rows[:-1])
    return math.exp(-float(rows[np.arange(len(rows)), ids[1:]].mean()))


def our_logits(np, folder, ids):
    tokens, logits = f"{work}/tokens.bin", f"{work}/logits.bin"
    np.asarray(ids, dtype="<i4").tofile(tokens)
    subprocess.run([path_logits, folder, tokens, logits], check=True)
    return np.fromfile(logits, dtype="<f4").reshape(len(ids), -1)


def compare(np, name, ours, theirs, ids, most):
    difference = float(np.abs(ours - theirs).max())  # NaN counts as different
    a, b = perplexity(np, ours, ids), perplexity(np, theirs, ids)
    same = int((ours.argmax(1) == theirs.argmax(1)).sum())
    check(
        difference <= most,
        f"{name}: largest difference in {ours.size} values {difference:.1e} (at most "
        f"{most:.0e}), perplexity {a:.5f} and {b:.5f}, same best token at {same} of "
        f"{len(ids)}",
    )


def greedy(text):
    out = subprocess.run(
        [pathloom, "generate", "--run", run, "--path", path, "--temperature", "0"]
        + ["--max-tokens", str(CHOSEN), "--json", "--prompt", text],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(out.stdout)["text"]


# ---- transformers ----
def check_transformers(np, folder, ids):
    import torch
    import transformers

    print(f"       transformers {transformers.__version__}, torch {torch.__version__}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    check(tokenizer(TEXT)["input_ids"] == ids_of(TEXT), "transformers: AutoTokenizer")
    back = tokenizer.decode(ids_of(TEXT), skip_special_tokens=True)
    check(back == TEXT, "transformers: the text comes back")
    slow = transformers.LlamaTokenizer.from_pretrained(folder)
    check(slow(TEXT)["input_ids"] == ids_of(TEXT), "transformers: LlamaTokenizer")
    for kind, most in (("f32", 1e-4), ("f16", 3e-2), ("bf16", 3e-1)):
        target = folder if kind == "f32" else export(kind, "safetensors", f"{work}/{kind}")
        model = transformers.AutoModelForCausalLM.from_pretrained(
            target, dtype=torch.float32, attn_implementation="eager"
        )
        assert type(model).__name__ == architecture
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0].numpy()
        compare(np, f"transformers {kind}", our_logits(np, folder, ids), theirs, ids, most)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    for prompt in PROMPTS:
        start = tokenizer(prompt, return_tensors="pt")
        out = model.generate(**start, max_new_tokens=CHOSEN, do_sample=False)
        new = out[0][start["input_ids"].shape[1] :]
        text, mine = tokenizer.decode(new, skip_special_tokens=True), greedy(prompt)
        check(text == mine, f"transformers: greedy text {mine!r}")


# ---- llama.cpp ----
class Llama:
    """The server of llama.cpp with one exported file."""

    def __init__(self, name, context):
        import xllamacpp

        options = xllamacpp.CommonParams()
        options.model.path = name
        options.n_ctx, options.n_parallel, options.warmup = context, 1, False
        options.verbosity = -1
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
        options.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_F32
        options.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        options.flash_attn_type = (
            xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self.server = xllamacpp.Server(options)

    def tokens(self, text):
        question = {"content": text, "add_special": True, "parse_special": False}
        request = urllib.request.Request(
            self.server.listening_address + "/tokenize",
            json.dumps(question).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["tokens"]

    def complete(self, **question):
        answer = self.server.handle_completions(
            dict(question, temperature=0, cache_prompt=False)
        )
        if "choices" not in answer:
            raise RuntimeError(f"llama.cpp: {answer}")
        return answer["choices"][0]

    def log_probabilities(self, np, ids, vocab):
        """A row a token: what may follow it."""
        rows = np.full((len(ids), vocab), np.nan)
        for i in range(len(ids)):
            step = self.complete(prompt=ids[: i + 1], max_tokens=1, logprobs=vocab)
            for entry in step["logprobs"]["content"][0]["top_logprobs"]:
                rows[i, entry["id"]] = entry["logprob"]
        return rows

    def text(self, prompt, n):
        return self.complete(prompt=prompt, max_tokens=n)["text"]


def check_llama(np, folder, ids):
    import gguf
    import xllamacpp

    print(f"       llama.cpp as in xllamacpp {xllamacpp.__version__}")
    ours = log_softmax(np, our_logits(np, folder, ids))
    for kind, most in (("f32", 1e-4), ("f16", 3e-2), ("bf16", 3e-1), ("q8_0", 3e-1)):
        name = export(kind, "gguf", f"{work}/{kind}.gguf")
        reader = gguf.GGUFReader(name)
        kinds = sorted({t.tensor_type.name for t in reader.tensors})
        check(len(reader.tensors) > 0, f"gguf: {kind} reads, types {' '.join(kinds)}")
        llama = Llama(name, len(ids) + 1)
        theirs = llama.log_probabilities(np, ids, ours.shape[1])
        compare(np, f"llama.cpp {kind}", ours, theirs, ids, most)
        if kind != "f32":
            continue
        check(llama.tokens(TEXT) == ids_of(TEXT), "llama.cpp: tokens")
        for prompt in PROMPTS:
            mine = greedy(prompt)
            check(llama.text(prompt, CHOSEN) == mine, f"llama.cpp: greedy text {mine!r}")


def ids_of(text):
    return [1] + processor.encode(text)


def attempt(name, what, *arguments):
    try:
        what(*arguments)
    except ImportError as missing:
        print(f"SKIP   {name}: {missing}; see tests/job/export_oracle.sh")


folder = export("f32", "safetensors", f"{work}/f32")
check_hashes(folder)
try:
    import numpy
    import sentencepiece
except ImportError as missing:
    print(f"SKIP   {missing}; see tests/job/export_oracle.sh")
    sys.exit(1 if failed else 77)
processor = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/tokenizer.model")
with open(f"{folder}/config.json") as file:
    config = json.load(file)
window, architecture = config["max_position_embeddings"], config["architectures"][0]
before = checked
attempt("transformers", check_transformers, numpy, folder, ids_of(TEXT)[: window - 1])
attempt("llama.cpp", check_llama, numpy, folder, ids_of(TEXT)[: window - 1])
print(f"{checked - failed} passed, {failed} failed")
sys.exit(1 if failed else 77 if checked == before else 0)
