"""Writes the data of tests/lm_eval.sh: sentences of one simple grammar, from which a small
model learns to prefer correct endings, and tasks of the harness with such sentences.

    make_data.py WORK
"""

import json
import random
import sys

work = sys.argv[1]
random.seed(1)
NOUNS = "weaver merchant loom path river worker spinner thread module router".split()
VERBS = "turns carries follows weaves crosses mends finds leaves".split()
TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {work}/{name}.jsonl
test_split: test
output_type: {kind}
doc_to_text: "{text}"
doc_to_target: "{target}"
{more}metric_list:
{metrics}
"""


def sentence():
    return f"The {random.choice(NOUNS)} {random.choice(VERBS)} the {random.choice(NOUNS)}."


def text(least, most):
    return " ".join(sentence() for _ in range(random.randint(least, most)))


def write(name, rows):
    with open(f"{work}/{name}.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def question():
    ending = f"{random.choice(VERBS)} the {random.choice(NOUNS)}."
    endings = [
        f"{random.choice(NOUNS)}.",
        f"the the {random.choice(VERBS)}.",
        f"{random.choice(NOUNS)} {random.choice(VERBS)} {random.choice(VERBS)}.",
    ]
    label = random.randrange(4)
    endings.insert(label, ending)
    query = f"{sentence()} {sentence()} The {random.choice(NOUNS)}"
    return {"query": query, "choices": endings, "label": label}


def task(name, kind, target, metrics, question="", more=""):
    with open(f"{work}/{name}.yaml", "w", encoding="utf-8") as file:
        lines = "\n".join(f"  - metric: {metric}" for metric in metrics)
        file.write(
            TASK.format(name=name, work=work, kind=kind, text=question, target=target,
                        more=more, metrics=lines)
        )


write("train", [{"text": text(4, 9)} for _ in range(300)])
write("held_out", [{"text": text(4, 9)} for _ in range(20)])
write("long", [{"text": text(40, 50)} for _ in range(2)])  # each has several windows
write("endings", [question() for _ in range(12)])
for name in "held_out", "long":
    task(name, "loglikelihood_rolling", "{{text}}", ["bits_per_byte"])
task("endings", "multiple_choice", "{{label}}", ["acc", "acc_norm"], "{{query}}",
     'doc_to_choice: "choices"\n')
