"""Compares the package with what the verbs of pathloom print.

tests/job/python.sh makes the run and sets PATHLOOM, PATHLOOM_RUN, PATHLOOM_TEXT and
PATHLOOM_LIBRARY.
"""

import ast
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import threading
import xml.etree.ElementTree

import numpy as np
import pathloom
import pytest
from pathloom import _library

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = re.sub(r"/\*.*?\*/", "", (ROOT / "lib/pathloom.h").read_text(), flags=re.S)
RUN, TEXT = os.environ["PATHLOOM_RUN"], pathlib.Path(os.environ["PATHLOOM_TEXT"])


def verb(*words):
    command = [os.environ["PATHLOOM"], *words[:1]]
    command += [*words[1:2]] if words[0] == "store" else []
    rest = words[len(command) - 1 :]
    done = subprocess.run([*command, *rest, "--run", RUN], capture_output=True, check=True)
    return done.stdout


def lines(*words):
    return [json.loads(line) for line in verb(*words, "--json").splitlines()]


@pytest.fixture(scope="module")
def run():
    return pathloom.open(RUN)


def test_the_records_are_those_of_the_header():
    records = re.findall(r"typedef struct pathloom_(\w+) \{(.*?)\} pathloom_\1;", HEADER, re.S)
    assert len(records) == 18
    for name, body in records:
        wanted = []
        for statement in body.split(";"):
            for part in statement.split(","):
                found = re.search(r"(\w+)(\[\d+\])?\s*$", part)
                wanted += [found.group(1)] if found else []
        record = getattr(_library, "".join(word.title() for word in name.split("_")))
        assert [member for member, _ in record._fields_] == wanted, name


def test_every_function_of_the_header_can_be_called():
    names = set(re.findall(r"pathloom_(\w+)\(", HEADER))
    assert names == set(_library._CALLS) | set(_library._OTHERS)


def test_lists_agree_with_the_verbs(run):
    modules = run.modules(frame=False)
    assert [(m["module"], m["number"], m["hash"]) for m in modules] == [
        (m["module"], m["version"], m["hash"]) for m in lines("store", "ls")
    ]
    versions = run.versions("L1.E0", frame=False)
    log = lines("store", "log", "L1.E0")[: len(versions)]
    assert [v["hash"] for v in reversed(versions)] == [v["hash"] for v in log]
    assert versions[1]["contributions"][0]["worker"].startswith("worker-")
    blame = lines("store", "blame", "L1.E0", "--history")
    for mine, theirs in zip(run.blame("L1.E0", earlier=True, frame=False), blame, strict=True):
        assert mine["worker"] == theirs["worker"] and mine["n_tokens"] == theirs["tokens"]
        assert mine["share"] == pytest.approx(theirs["share"], abs=1e-6)
    assert [t["name"] for t in run.tags(frame=False)] == [
        t["tag"] for t in lines("store", "ls", "--tags")
    ]
    assert {p["name"]: p["n_phases"] for p in run.paths("mix", frame=False)} == {
        p["path"]: p["phase"]
        for p in lines("store", "ls", "--paths")
        if p["path"].startswith("mix/")
    }
    mix = [arm for arm in run.arms(frame=False) if arm["name"] == "mix"][0]
    assert mix["is_mixture"] and mix["n_paths"] == 4
    assert run.info["is_finished"] and run.info["newest"] == "mix"


def test_the_history_agrees_with_status(run):
    rows = [json.loads(line) for line in verb("status", "--history", "--json").splitlines()]
    assert [(r["arm"], r["phase"], r["versions"]) for r in rows] == [
        (r["arm"], r["phase"], r["n_versions"]) for r in run.history(frame=False)
    ]


def test_tensors_are_the_bytes_of_store_cat(run):
    tensors = run.tensors("L1.E0@2")
    for name, values in tensors.items():
        raw = verb("store", "cat", "L1.E0@2", name)
        assert np.frombuffer(raw, np.float32).reshape(values.shape).tobytes() == values.tobytes()
    with pytest.raises(ValueError):
        next(iter(tensors.values()))[0] = 1


def test_arrays_outlive_the_run():
    other = pathloom.open(RUN)
    values = other.tensors("embed@1")["model.embed_tokens.weight"]
    before = values.sum()
    other.close()
    del other
    pathloom.open(RUN).tensors("embed@1")
    assert values.sum() == before
    assert values[:3].copy().shape[0] == 3


def test_a_path_writes_what_generate_writes(run):
    wanted = lines("generate", "--prompt", "int main", "--path", "p01", "--seed", "3")[0]
    pieces = []
    made = run.path("p01").generate("int main", seed=3, on_piece=pieces.append, details=True)
    assert made["text"] == wanted["text"] == "".join(pieces)
    assert made["path"] == "p01" and made["n_tokens"] == wanted["tokens"]
    whole = lines("generate", "--prompt", "int main")[0]
    made = run.generate("int main", details=True)
    assert (made["text"], made["path"]) == (whole["text"], whole["path"])
    text = wanted["text"]
    if len(text) > 4:
        assert text[2:4] not in run.path("p01").generate("int main", seed=3, stop=[text[2:4]])


def test_scores_agree_with_eval(run):
    document = lines("eval", "--on", str(TEXT))[0]["documents"][0]
    score = run.score([TEXT.read_text()], frame=False)[0]
    assert score["path"] == document["path"] and score["n_bytes"] == document["scored_bytes"]
    assert score["bits_per_byte"] == pytest.approx(document["bits_per_byte"], abs=1e-5)
    assert len(run.path("p00").score(["one", "two"], frame=False)) == 2


def test_the_route_agrees_with_route(run):
    wanted = lines("route", "--prompt", "int main")[0]
    route = run.route("int main")
    assert route["path"] == wanted["path"] and route["why"] == wanted["why"]
    for path in wanted["paths"]:
        assert route["nats"][path["path"]] == pytest.approx(path["nats"], abs=1e-3)
        assert route["costs"][path["path"]] == pytest.approx(path["router_cost"], abs=1e-3)


def test_the_state_of_a_path_is_what_export_writes(run, tmp_path):
    verb("export", "--path", "p01", "--out", str(tmp_path / "model"))
    data = (tmp_path / "model" / "model.safetensors").read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + n])
    head.pop("__metadata__", None)
    state = run.path("p01").state_dict()
    assert set(state) == set(head) | {"lm_head.weight"}
    for name, tensor in head.items():
        first, end = tensor["data_offsets"]
        assert list(state[name].shape) == tensor["shape"]
        assert np.asarray(state[name]).tobytes() == data[8 + n + first : 8 + n + end], name
    exported = pathloom.open_model(str(tmp_path / "model"))
    assert exported.generate("int main", temperature=0) == run.path("p01").generate(
        "int main", temperature=0
    )
    assert set(run.model(arm="base").state_dict()) == set(state)
    with pytest.raises(ValueError):
        run.model().state_dict()


def test_tokens_give_the_text_back(run):
    model = run.model()
    for text in ("", "int café = 1;\n", "\U0001f600" * 30):
        assert model.detokenize(model.tokenize(text)) == text


def test_a_run_is_found_after_the_directory_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(pathlib.Path(RUN).parent)
    run = pathloom.open(pathlib.Path(RUN).name)
    monkeypatch.chdir(tmp_path)
    run.refresh()
    assert run.path("p00").generate("int") and len(run.history(frame=False)) > 0


def test_errors_name_the_thing(run, tmp_path):
    with pytest.raises(pathloom.PathloomError, match="there is no run") as caught:
        pathloom.open(str(tmp_path))
    assert caught.value.status == "ERR_NOT_FOUND"
    with pytest.raises(pathloom.PathloomError, match="did you mean"):
        run.versions("L1.E7")
    with pytest.raises(pathloom.PathloomError):
        run.path("p00").generate("int", temperature=math.nan)
    closed = pathloom.open(RUN)
    closed.close()
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        closed.modules()


def test_an_exception_in_a_callback_ends_the_call(run):
    model, seen = run.path("p00"), []

    def stop(piece):
        seen.append(piece)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.generate("int", on_piece=stop)
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="callback"):
        model.generate("int", on_piece=lambda piece: model.generate("x"))
    with pytest.raises(RuntimeError, match="callback"):
        model.generate("int", on_piece=lambda piece: model.close())
    assert model.generate("int")


def test_threads_share_an_object(run):
    model, texts = run.path("p00"), []
    threads = [
        threading.Thread(target=lambda: texts.append(model.generate("int"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 4 and len(set(texts)) == 1


def test_a_frame_needs_pandas(run):
    try:
        import pandas
    except ImportError:
        with pytest.raises(ImportError, match="pandas"):
            run.arms(frame=True)
    else:
        assert isinstance(run.history(), pandas.DataFrame)


def test_a_model_is_trained_on_a_text(tmp_path):
    steps = []
    text = tmp_path / "count.txt"
    text.write_text("\n\n".join("one two three four five " * 40 for _ in range(60)))
    options = {"vocab": 280, "width": 32, "n_blocks": 1, "ffn": 64, "steps": 20, "n_threads": 1}
    model = pathloom.train(str(text), str(tmp_path / "a"), progress=steps.append, **options)
    assert steps[-1]["valid_loss"] < steps[0]["loss"]
    assert model.score(["one two three"], frame=False)[0]["n_bytes"] == 13
    pathloom.train(str(text), str(tmp_path / "b"), **options)
    first, second = (tmp_path / f / "model/model.safetensors" for f in "ab")
    assert first.read_bytes() == second.read_bytes()
    with pytest.raises(TypeError, match="n_block"):
        pathloom.train(str(text), str(tmp_path / "c"), n_block=1)


def test_the_notebook_runs_and_draws(capsys):
    """Runs its cells as plain Python, in their order, as a notebook does."""
    notebook = json.loads((ROOT / "examples/explore_run.ipynb").read_text())
    names, pictures = {}, 0
    os.environ["PATHLOOM_RUN"] = RUN
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None
        *body, last = ast.parse("".join(cell["source"])).body
        if not isinstance(last, ast.Expr):
            body, last = [*body, last], None
        exec(compile(ast.Module(body, []), "explore_run.ipynb", "exec"), names)
        value = last and eval(compile(ast.Expression(last.value), "explore_run.ipynb", "eval"), names)
        if isinstance(value, names.get("Picture", ())):
            drawing = xml.etree.ElementTree.fromstring(value._repr_svg_())
            pictures += 1
            points = sum(len(p) for p in value.series.values())
            assert points > 1 and sum(e.tag.endswith("circle") for e in drawing) == points
    assert pictures == 3
    assert len(names["curves"]["mix"]) == 3 and len(names["lineage"]) == 2
    said = capsys.readouterr().out
    assert "because" in said and "model.layers.0.input_layernorm.weight" in said
