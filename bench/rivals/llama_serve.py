"""Compares the speed of serving with llama.cpp: same weights, over HTTP, in turn.

    sh bench/rivals/generate.sh --serve --work FOLDER [--threads 2] [--rounds 3] [--tokens 64]
        [--llama-server PROGRAM]

PROGRAM is the server of a llama.cpp that was compiled on this machine. By default the
server of the package xllamacpp is used, which does not use all instructions of new
processors.
FOLDER gets a run of 2x2 modules of the shape 124m (random weights, trained for one step)
and, for llama.cpp, each of its four paths as a GGUF file of type q8_0; a second call
reuses these files. Pathloom serves the run in int8. The rows of the table:

    one path    N clients at once ask for the same path; llama.cpp has N slots
    four paths  client i asks for path i mod 4. One pathloom serves all four; llama.cpp
                has one server per path, each with a quarter of the slots and threads

Each client sends one request with its own prompt of 32 tokens; the answer has --tokens
tokens, each the likeliest one. A measurement is the number of tokens of all answers
divided by the time from the first request to the last answer. In each round both servers
are measured in turn; the first round only warms up. The median over the rounds counts.
The last lines give the time of a request for one token after a prompt of 1,000 tokens,
when the server sees the prompt for the first time and when it sees it again.
"""

import argparse
import concurrent.futures
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

try:
    import numpy as np
    import xllamacpp
    from sentencepiece import sentencepiece_model_pb2 as pieces
except ImportError as missing:
    print(
        f"the Python package {missing.name} is missing; install it outside the tree:\n"
        "  python3 -m venv RIVALS\n"
        "  RIVALS/bin/pip install xllamacpp sentencepiece protobuf numpy\n"
        "  PYTHON=RIVALS/bin/python sh bench/rivals/generate.sh --serve --work FOLDER",
        file=sys.stderr,
    )
    sys.exit(77)

VOCAB, WIDTH, HEADS, FFN, BLOCKS, CONTEXT = 50304, 768, 12, 2048, 12, 1280
PATHS = ("p00", "p01", "p10", "p11")
PROMPT, LONG_PROMPT = 32, 1000
FIRST_WORD = 300


# ---- the model ----
def write_tokenizer(name):
    """Writes control tokens, bytes, single letters, and words that no text contains."""
    model = pieces.ModelProto()
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.vocab_size = VOCAB
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    words = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    words += ["\u2581"] + [chr(ord("a") + i) for i in range(26)]
    words += ["\u2581w%d" % i for i in range(len(words), VOCAB)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (VOCAB - 259)
    for i, (word, kind) in enumerate(zip(words, kinds)):
        model.pieces.add(piece=word, score=-float(i), type=kind)
    with open(name, "wb") as file:
        file.write(model.SerializeToString())


def write_model(folder):
    """Writes a Llama model with random weights, in the form of transformers."""
    random = np.random.default_rng(1)
    shapes = {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)}
    for i in range(BLOCKS):
        layer = f"model.layers.{i}."
        shapes[layer + "input_layernorm.weight"] = (WIDTH,)
        shapes[layer + "post_attention_layernorm.weight"] = (WIDTH,)
        for which in "qkvo":
            shapes[layer + f"self_attn.{which}_proj.weight"] = (WIDTH, WIDTH)
        shapes[layer + "mlp.gate_proj.weight"] = (FFN, WIDTH)
        shapes[layer + "mlp.up_proj.weight"] = (FFN, WIDTH)
        shapes[layer + "mlp.down_proj.weight"] = (WIDTH, FFN)
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            values = random.standard_normal(shape, dtype=np.float32) * 0.02
            file.write((values if len(shape) == 2 else values + 1).tobytes())
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": VOCAB,
        "hidden_size": WIDTH,
        "intermediate_size": FFN,
        "num_hidden_layers": BLOCKS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file)


def quietly(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout.decode()[-2000:]}")


def make_run(options):
    """Makes the run and a GGUF file of each of its paths; returns their names."""
    run, folder = f"{options.work}/run", f"{options.work}/model"
    files = [f"{options.work}/mix-{path}-q8_0.gguf" for path in PATHS]
    if all(os.path.exists(name) for name in files):
        return run, files
    os.makedirs(folder, exist_ok=True)
    write_tokenizer(f"{folder}/tokenizer.model")
    write_model(folder)
    with open(f"{options.work}/text.jsonl", "w") as file:
        for i in range(24):
            letters = [chr(ord("a") + (i * 7 + j * j) % 26) for j in range(100)]
            file.write(json.dumps({"text": " ".join(letters)}) + "\n")
    quietly(options.pathloom, "import", folder, "--out", f"{options.work}/run.yaml", "--force")
    sets = "topology.levels=2x2 topology.embed=common topology.head=common train.tau=1 train.phases=1 "
    sets += "train.batch=1 router.prefix=8 router.sees=0 workers.count=1 data.valid_share=0.1 "
    sets += "eval.baselines=none eval.sample_tokens=0 train.base_steps=0"
    command = [options.pathloom, "train", f"{options.work}/run.yaml", "--out", run]
    command += ["--corpus", f"{options.work}/text.jsonl"]
    for key in sets.split():
        command += ["--set", key]
    quietly(*command)
    quietly(options.pathloom, "export", "--run", run, "--all", "--format", "gguf",
            "--type", "q8_0", "--out", options.work)
    return run, files


# ---- servers ----
LLAMA = """
import sys, xllamacpp
options = xllamacpp.CommonParams()
options.model.path = sys.argv[1]
options.n_parallel, options.n_ctx = int(sys.argv[2]), int(sys.argv[2]) * int(sys.argv[4])
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = int(sys.argv[3])
options.port, options.verbosity = 0, -1
server = xllamacpp.Server(options)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


class Server:
    """A process that serves until `end`. Without `address`, the first lines that the process
    prints have its address."""

    def __init__(self, command, address=""):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if address else subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.address = address
        while address and not self.answers():
            if self.process.poll() is not None:
                sys.exit(f"{command[0]} did not start")
            time.sleep(0.1)
        while not self.address:
            line = self.process.stdout.readline().decode()
            if not line:
                sys.exit(f"{command[0]} did not start")
            for word in line.split():
                if word.startswith("http://"):
                    self.address = word.rstrip("/").removesuffix("/v1")

    def answers(self):
        try:
            return urllib.request.urlopen(self.address + "/health").status == 200
        except OSError:
            return False

    def end(self):
        self.process.terminate()
        self.process.communicate()


def start_pathloom(options, run, slots):
    return Server([options.pathloom, "serve", "--run", run, "--precision", "int8",
                   "--listen", "127.0.0.1:*", "--threads", str(options.threads),
                   "--slots", str(slots)])  # fmt: skip


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_llama(options, name, slots, threads):
    if options.llama_server:
        port = free_port()
        return Server([options.llama_server, "--model", name, "--parallel", str(slots),
                       "--ctx-size", str(slots * CONTEXT), "--threads", str(threads),
                       "--threads-batch", str(threads), "--port", str(port)],
                      f"http://127.0.0.1:{port}")  # fmt: skip
    return Server([sys.executable, "-c", LLAMA, name, str(slots), str(threads), str(CONTEXT)])


def ask(address, path, client, n_prompt, n_tokens):
    """Sends a request; returns the number of tokens of the answer. path: None for llama.cpp."""
    prompt = [1] + [FIRST_WORD + (7919 * client + 31 * i) % 50000 for i in range(n_prompt - 1)]
    body = {"prompt": prompt, "max_tokens": n_tokens, "temperature": 0, "logit_bias": {"2": -100}}
    if path:
        body["model"] = path
    else:
        body["logit_bias"] = [[2, False]]
    request = urllib.request.Request(
        f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def measure(requests, n_tokens, first):
    """Sends all requests (address, path) at once; returns the tokens per second of all."""
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        start = time.monotonic()
        answers = [
            pool.submit(ask, address, path, first + i, PROMPT, n_tokens)
            for i, (address, path) in enumerate(requests)
        ]
        total = sum(answer.result() for answer in answers)
        return total / (time.monotonic() - start)


def compare(options, run, files, paths, n):
    """Prints a row: tokens/s of both servers; median, least and largest ratio."""
    slots = max(1, n // len(paths))
    threads = max(1, options.threads // len(paths))
    ours = start_pathloom(options, run, n)
    theirs = [start_llama(options, files[PATHS.index(path)], slots, threads) for path in paths]
    turns = [i % len(paths) for i in range(n)]
    rows, client = [], 0
    for _ in range(options.rounds + 1):
        row = []
        for requests in (
            [(ours.address, paths[turn]) for turn in turns],
            [(theirs[turn].address, None) for turn in turns],
        ):
            row.append(measure(requests, options.tokens, client))
        rows.append(row)
        client += n
    for server in [ours] + theirs:
        server.end()
    rows = rows[1:]
    ratios = sorted(mine / other for mine, other in rows)
    mine, other = (statistics.median(column) for column in zip(*rows))
    print(
        f"{len(paths):5} {n:8} {mine:9.1f} {other:9.1f} {statistics.median(ratios):7.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f})",
        flush=True,
    )


def compare_prefix(options, run, files):
    """Sends each long prompt twice to both servers; prints the median of each time."""
    for name, server, path in (
        ("pathloom", start_pathloom(options, run, 1), PATHS[0]),
        ("llama.cpp", start_llama(options, files[0], 1, options.threads), None),
    ):
        times = ([], [])
        for prompt in range(options.rounds + 1):
            for time_of in times:
                start = time.monotonic()
                ask(server.address, path, prompt, LONG_PROMPT, 1)
                time_of.append(time.monotonic() - start)
        server.end()
        first, again = (1000 * statistics.median(time_of[1:]) for time_of in times)
        print(f"{name:9} first {first:7.1f} ms, again {again:6.1f} ms, {first / again:5.1f} times")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pathloom", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--llama-server", default="")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    run, files = make_run(options)
    print(
        f"{options.llama_server or 'xllamacpp ' + xllamacpp.__version__}, q8_0 beside int8, "
        f"{options.threads} threads, median of {options.rounds} rounds; tokens/s\n"
        "paths requests  pathloom llama.cpp   ratio"
    )
    for n in (1, 4, 16):
        compare(options, run, files, PATHS[:1], n)
    for n in (4, 16):
        compare(options, run, files, PATHS, n)
    compare_prefix(options, run, files)


main()
