"""Compares the speed of generation with llama.cpp: same shapes, same files, in turn.

    sh bench/rivals/generate.sh [--model 2m,13m,124m] [--run RUN] [--threads 1] [--rounds 3]

Without --run the files have random weights, in the layout that `pathloom export --format
gguf` writes: speed does not depend on the values of weights. With --run the script
exports a path of that run in each type. The times of llama.cpp are the `timings` that
its server reports. They include the time to sample each token; those of `pathloom bench
generate` do not. Each round runs both programs once; the best round of each counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np
    import xllamacpp
except ImportError as missing:
    print(
        f"the Python package {missing.name} is missing; install it outside the tree:\n"
        "  python3 -m venv RIVALS && RIVALS/bin/pip install xllamacpp gguf numpy\n"
        "  PYTHON=RIVALS/bin/python sh bench/rivals/generate.sh",
        file=sys.stderr,
    )
    sys.exit(77)

# vocab, width, heads, ffn, blocks, as in measure/measure_generate.c
SIZES = {
    "2m": (4096, 128, 4, 352, 8),
    "13m": (8192, 384, 6, 1024, 6),
    "124m": (50304, 768, 12, 2048, 12),
}
CONTEXT, PROMPT, CHOSEN = 256, 128, 48
# pathloom's precision, llama.cpp's type
PAIRS = (("f32", "f32"), ("bf16", "bf16"), ("bf16", "f16"), ("int8", "q8_0"))
TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}


def add_words(writer, vocab):
    """Adds a vocabulary like that of SentencePiece: control tokens, bytes, words."""
    words = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    while len(words) < vocab:
        words.append(b"w%d" % len(words))
        kinds.append(1)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([-float(i) for i in range(vocab)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def write_random(name, size, kind):
    vocab, width, heads, ffn, blocks = SIZES[size]
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(name, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(blocks)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    add_words(writer, vocab)

    def matrix(tensor, rows, columns):
        values = random.standard_normal((rows, columns), dtype=np.float32) * 0.02
        coded = gguf.quants.quantize(values, TYPES[kind])
        writer.add_tensor(tensor, coded, raw_dtype=TYPES[kind])

    def norm(tensor):
        writer.add_tensor(tensor, np.ones(width, dtype=np.float32))

    matrix("token_embd.weight", vocab, width)
    norm("output_norm.weight")
    for i in range(blocks):
        norm(f"blk.{i}.attn_norm.weight")
        norm(f"blk.{i}.ffn_norm.weight")
        for which in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{i}.{which}.weight", width, width)
        matrix(f"blk.{i}.ffn_gate.weight", ffn, width)
        matrix(f"blk.{i}.ffn_up.weight", ffn, width)
        matrix(f"blk.{i}.ffn_down.weight", width, ffn)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def shape_of(name):
    """Returns the settings of `pathloom bench generate` for the model of a file."""
    fields = gguf.GGUFReader(name).fields

    def value(key):
        return int(fields[f"llama.{key}"].contents())

    width, heads = value("embedding_length"), value("attention.head_count")
    return {
        "data.vocab": value("vocab_size"),
        "model.width": width,
        "model.heads": heads,
        "model.kv_heads": value("attention.head_count_kv"),
        "model.head_size": value("rope.dimension_count"),
        "model.ffn": value("feed_forward_length"),
        "model.blocks": value("block_count"),
        "model.context": value("context_length"),
    }


class Llama:
    def __init__(self, name, threads, context):
        options = xllamacpp.CommonParams()
        options.model.path = name
        options.n_ctx, options.n_parallel = context, 1
        options.verbosity = -1
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
        self.server = xllamacpp.Server(options)

    def timings(self, n_prompt, n_chosen):
        answer = self.server.handle_completions(
            {
                "prompt": [1] + [5 + 7 * i % 200 for i in range(n_prompt - 1)],
                "max_tokens": n_chosen,
                "temperature": 0,
                "cache_prompt": False,
                "ignore_eos": True,
            }
        )
        if "timings" not in answer:
            raise RuntimeError(f"llama.cpp: {answer}")
        return answer["timings"]

    def measure(self, n_prompt):
        prefill = self.timings(n_prompt, 1)["prompt_per_second"]
        decode = self.timings(2, CHOSEN)["predicted_per_second"]
        return prefill, decode


def ours(options, sets, precision):
    command = [options.pathloom, "bench", "generate", "--json"]
    command += ["--threads", str(options.threads), "--precision", precision]
    for key, number in sets.items():
        command += ["--set", f"{key}={number}"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    row = json.loads(output)["models"][0]
    return (
        row["prefill_tokens_per_s"],
        row["decode_tokens_per_s"],
        row.get("share_of_memory", 0.0),
        row["prompt_tokens"],
    )


def compare(options, label, name, precision, kind):
    sets = shape_of(name)
    context = sets["model.context"]
    llama = Llama(name, options.threads, context)
    best, theirs = [0.0, 0.0, 0.0], [0.0, 0.0]
    for _ in range(options.rounds):
        mine = ours(options, sets, precision)
        best = [max(pair) for pair in zip(best, mine)]
        theirs = [max(pair) for pair in zip(theirs, llama.measure(mine[3]))]
    print(
        f"{label:6} {precision:>5} {kind:>5} {best[1]:9.1f} {theirs[1]:9.1f} "
        f"{best[1] / theirs[1]:6.2f} {best[0]:10.0f} {theirs[0]:10.0f} "
        f"{best[0] / theirs[0]:6.2f} "
        + (f"{100 * best[2]:8.0f} %" if best[2] else "         -"),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pathloom", required=True)
    parser.add_argument("--model", default=",".join(SIZES))
    parser.add_argument("--run")
    parser.add_argument("--path", default="p00")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(
        f"llama.cpp of xllamacpp {xllamacpp.__version__}, {options.threads} threads, "
        f"best of {options.rounds}; tokens/s\n"
        "model   ours their    decode llama.cpp  ratio    prefill  llama.cpp  ratio "
        "of memory"
    )
    labels = [options.path] if options.run else options.model.split(",")
    with tempfile.TemporaryDirectory() as work:
        for label in labels:
            for precision, kind in PAIRS:
                name = f"{work}/{label}-{kind}.gguf"
                if options.run:
                    subprocess.run(
                        [options.pathloom, "export", "--run", options.run, "--path"]
                        + [label, "--format", "gguf", "--type", kind, "--out", name],
                        check=True,
                        stdout=subprocess.DEVNULL,
                    )
                else:
                    write_random(name, label, kind)
                compare(options, label, name, precision, kind)
                os.remove(name)


if __name__ == "__main__":
    main()
