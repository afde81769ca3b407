"""Asks a server by the clients of other people, and prints what works (tests/clients.sh).

    clients.py ADDRESS FOLDER

FOLDER is empty; clients keep their files there. A call of `works` must return a true value. A call of `refused` must raise an error whose
text has the server's sentence.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from importlib import metadata

address = sys.argv[1]
PROMPT, KEY = "static int", "none"
TOOL = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
}
CHAT = [{"role": "user", "content": "What does main return?"}]
os.environ |= {
    "OPENAI_API_KEY": KEY,
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "CRITICAL",
    "TOKENIZERS_PARALLELISM": "false",
    "NO_PROXY": "127.0.0.1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HOME": sys.argv[2] + "/hf",
    "LLM_USER_PATH": sys.argv[2],
}
clients, bad = [], 0


def client(package):
    def add(function):
        clients.append((package, function))
        return function

    return add


class Calls:
    """The calls of one client, one after the other."""

    def __init__(self):
        self.good, self.refusals, self.wrong = [], [], []

    def works(self, name, call):
        try:
            if not call():
                raise ValueError("the answer is empty")
            self.good.append(name)
        except Exception as error:
            self.wrong.append(f"{name}: {type(error).__name__}: {error}"[:400])

    def refused(self, name, sentence, call):
        try:
            call()
            self.wrong.append(f"{name}: was not refused")
        except Exception as error:
            if sentence in str(error):
                self.refusals.append(f"{name} ({sentence})")
            else:
                self.wrong.append(f"{name}: {type(error).__name__}: {error}"[:400])


def unsupported(key):
    return f"`{key}` is not supported by this server"


@client("openai")
def ask_openai(calls):
    import openai

    api = openai.OpenAI(base_url=address, max_retries=0)
    complete, chat = api.completions.create, api.chat.completions.create
    calls.works("models", lambda: "auto" in [m.id for m in api.models.list()])
    calls.works("completion", lambda: complete(model="auto", prompt=PROMPT).choices[0].text)
    calls.works(
        "stream",
        lambda: "".join(
            part.choices[0].text for part in complete(model="auto", prompt=PROMPT, stream=True)
        ),
    )
    scored = dict(model="p0", prompt=[PROMPT, "void f"], echo=True, logprobs=2, max_tokens=1, n=2)
    calls.works("logprobs", lambda: len(complete(**scored).choices) == 4)
    calls.works("chat", lambda: chat(model="auto", messages=CHAT, max_tokens=8).choices[0].message)
    calls.works(
        "chat stream",
        lambda: list(
            chat(
                model="auto",
                messages=CHAT,
                max_completion_tokens=8,
                stream=True,
                stream_options={"include_usage": True},
            )
        )[-1].usage.total_tokens,
    )
    calls.works(
        "chat logprobs",
        lambda: chat(
            model="auto", messages=CHAT, max_tokens=4, logprobs=True, top_logprobs=2
        ).choices[0].logprobs.content[0].top_logprobs,
    )
    calls.works(
        "embeddings",
        lambda: len(api.embeddings.create(model="auto", input=["a", "b"]).data[1].embedding) == 48,
    )
    calls.refused(
        "tools", unsupported("tools"), lambda: chat(model="auto", messages=CHAT, tools=[TOOL])
    )
    calls.refused(
        "response_format",
        unsupported("response_format"),
        lambda: chat(model="auto", messages=CHAT, response_format={"type": "json_object"}),
    )
    calls.refused(
        "responses", "there is no such endpoint", lambda: api.responses.create(model="auto", input="x")
    )
    calls.refused(
        "unknown model",
        "GET /v1/models",
        lambda: complete(model="gpt-4o-mini", prompt=PROMPT),
    )


@client("litellm")
def ask_litellm(calls):
    import litellm

    litellm.suppress_debug_info = True
    chat = dict(model="openai/auto", api_base=address, messages=CHAT, max_tokens=8)
    text = dict(model="text-completion-openai/auto", api_base=address, prompt=PROMPT)
    calls.works("completion", lambda: litellm.text_completion(**text).choices[0].text)
    calls.works("stream", lambda: len(list(litellm.text_completion(stream=True, **text))) > 1)
    calls.works("chat", lambda: litellm.completion(**chat).usage.total_tokens)
    calls.works("chat stream", lambda: len(list(litellm.completion(stream=True, **chat))) > 1)
    calls.works(
        "embeddings",
        lambda: litellm.embedding(model="openai/auto", api_base=address, input=["a"]).data,
    )
    calls.refused("tools", unsupported("tools"), lambda: litellm.completion(tools=[TOOL], **chat))


@client("langchain-openai")
def ask_langchain(calls):
    import langchain_openai

    how = dict(base_url=address, model="auto", max_tokens=8, max_retries=0)
    text, chat = langchain_openai.OpenAI(**how), langchain_openai.ChatOpenAI(**how)
    vectors = langchain_openai.OpenAIEmbeddings(
        base_url=address, model="auto", check_embedding_ctx_length=False
    )
    calls.works("completion", lambda: text.invoke(PROMPT))
    calls.works("stream", lambda: "".join(text.stream(PROMPT)))
    calls.works("batch", lambda: all(text.batch([PROMPT, "void f"])))
    calls.works("chat", lambda: chat.invoke("What does main return?").usage_metadata)
    calls.works("chat stream", lambda: len(list(chat.stream("What does main return?"))) > 1)
    calls.works("embeddings", lambda: len(vectors.embed_query("a")) == 48)
    calls.refused(
        "bind_tools", unsupported("tools"), lambda: chat.bind_tools([TOOL]).invoke("Add 1 and 2")
    )
    calls.refused(
        "structured output",
        unsupported("response_format"),
        lambda: chat.with_structured_output(
            {"title": "t", "type": "object", "properties": {}}, method="json_schema"
        ).invoke("x"),
    )


@client("llama-index-llms-openai-like")
def ask_llama_index(calls):
    from llama_index.core.llms import ChatMessage
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.llms.openai_like import OpenAILike

    how = dict(model="auto", api_base=address, api_key=KEY, max_tokens=8, max_retries=0)
    text, chat = OpenAILike(**how), OpenAILike(is_chat_model=True, **how)
    turn = [ChatMessage(role="user", content="What does main return?")]
    vectors = OpenAILikeEmbedding(model_name="auto", api_base=address, api_key=KEY)
    calls.works("completion", lambda: text.complete(PROMPT).text)
    calls.works("stream", lambda: list(text.stream_complete(PROMPT))[-1].text)
    calls.works("chat", lambda: chat.chat(turn).message)
    calls.works("chat stream", lambda: list(chat.stream_chat(turn))[-1].message)
    calls.works("embeddings", lambda: len(vectors.get_text_embedding("a")) == 48)


@client("pydantic-ai-slim")
def ask_pydantic(calls):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("auto", provider=OpenAIProvider(base_url=address, api_key=KEY))
    how = {"max_tokens": 8}
    agent = Agent(model, instructions="Answer shortly.", model_settings=how)
    typed = Agent(model, output_type=dict[str, int], model_settings=how, retries=0)

    def add(a: int, b: int) -> int:
        return a + b

    calls.works("chat", lambda: agent.run_sync("What does main return?").output)
    calls.works(
        "chat stream",
        lambda: "".join(agent.run_stream_sync("What does main return?").stream_text(delta=True)),
    )
    calls.refused("output_type", unsupported("tool_choice"), lambda: typed.run_sync("1 and 2"))
    calls.refused(
        "tools",
        unsupported("tools"),
        lambda: Agent(model, tools=[add], model_settings=how).run_sync("1 and 2"),
    )


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout)[-2000:])
    return done.stdout.strip()


@client("llm")
def ask_llm(calls):
    """The model's names and the server's address come from a file of the user's folder."""
    import llm

    models = pathlib.Path(os.environ["LLM_USER_PATH"]) / "extra-openai-models.yaml"
    how = {"model_name": "auto", "api_base": address, "supports_tools": True, "supports_schema": True}
    models.write_text(json.dumps([
        {"model_id": "talk", **how},
        {"model_id": "text", "completion": True, **how},
    ]))

    def ask(model, stream, **more):
        answer = llm.get_model(model).prompt(PROMPT, key=KEY, stream=stream, max_tokens=8, **more)
        return answer.text()

    calls.works("completion", lambda: ask("text", False))
    calls.works("stream", lambda: ask("text", True))
    calls.works("chat", lambda: ask("talk", False))
    calls.works("chat stream", lambda: ask("talk", True))
    calls.refused("schema", unsupported("response_format"),
                  lambda: ask("talk", False, schema={"type": "object", "properties": {}}))

    def add(a: int, b: int) -> int:
        return a + b

    calls.refused("tools", unsupported("tools"), lambda: ask("talk", False, tools=[add]))


@client("lm-eval")
def ask_harness(calls):
    """The harness of EleutherAI, as a program, with a task of two documents per kind."""
    program = str(pathlib.Path(sys.executable).with_name("lm_eval"))
    folder = pathlib.Path(os.environ["LLM_USER_PATH"]) / "lm_eval"
    folder.mkdir()
    rows = [{"text": "static int main(void);", "ends": [" int", " void"]}] * 2
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def score(model, kind, more, metric, *options):
        task = {
            "task": kind, "dataset_path": "json", "test_split": "test", "output_type": kind,
            "dataset_kwargs": {"data_files": {"test": str(folder / "test.jsonl")}},
            "doc_to_text": "", "doc_to_target": "{{text}}",
            "metric_list": [{"metric": metric}], **more,
        }
        (folder / f"{kind}.yaml").write_text(json.dumps(task))
        end = "/chat/completions" if "chat" in model else "/completions"
        shown = run(program, "--model", model, "--tasks", kind, "--include_path", str(folder),
                    "--model_args", f"base_url={address}{end},model=auto,max_length=257", *options)
        return kind in shown and metric in shown

    ends = {"doc_to_text": "{{text}}", "doc_to_choice": "ends", "doc_to_target": 0}
    until = {"doc_to_text": "{{text}}", "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8}}
    calls.works("perplexity", lambda: score("local-completions", "loglikelihood_rolling", {}, "bits_per_byte"))
    calls.works("multiple choice", lambda: score("local-completions", "multiple_choice", ends, "acc"))
    calls.works("completion", lambda: score("local-completions", "generate_until", until, "exact_match"))
    calls.works("chat", lambda: score("local-chat-completions", "generate_until", until, "exact_match",
                                      "--apply_chat_template"))


@client("node")
def ask_node(calls):
    script = pathlib.Path(__file__).with_name("stream.mjs")

    def stream():
        answer = json.loads(run("node", str(script), address))
        return answer["status"] == 200 and answer["ended"] and answer["events"] > 1

    calls.works("fetch with a stream", stream)


print("| client | version | works | refused by design |\n|---|---|---|---|")
for package, function in clients:
    calls = Calls()
    if package != "node":
        version = metadata.version(package)
    elif shutil.which("node"):
        version = run("node", "--version").lstrip("v")
    else:
        print("| node | - | not on this machine: install Debian's nodejs | |")
        continue
    function(calls)
    row = re.sub(r"\s+", " ", f"{', '.join(calls.good)} | {'; '.join(calls.refusals)}")
    print(f"| {package} | {version} | {row} |", flush=True)
    for line in calls.wrong:
        bad += 1
        print(f"FAILED {package} {line}", file=sys.stderr, flush=True)
sys.exit(1 if bad else 0)
