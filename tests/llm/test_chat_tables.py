"""Chat templates as tables for devices: the forms of the usual families, exactly as jinja2 does; others refused."""

from __future__ import annotations

from datetime import datetime

import pytest

from sdk.errors import BuildError
from sdk.llm.text.chat_table import ChatTable, compile_chat
from sdk.llm.text.template import ChatTemplate

NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
SAY = "{% for m in messages %}"
CHATML = SAY + "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
ASK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
TURNS = "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles take turns') }}{% endif %}"
FAMILIES = {
    "chatml": CHATML + ASK,
    "chatml with a system of its own": "{% if messages[0].role != 'system' %}<|im_start|>system\nBe good.<|im_end|>\n"
    "{% endif %}"
    + CHATML + ASK,
    "llama3": "{{ bos_token }}" + SAY + "<|start|>{{ m.role }}<|end|>\n\n{{ m.content | trim }}<|eot|>{% endfor %}"
    "<|start|>assistant<|end|>\n\n",
    "llama2": "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set told = messages[0].content %}"
    "{% else %}{% set rest = messages %}{% set told = false %}{% endif %}{% for m in rest %}" + TURNS +
    "{% if loop.index0 == 0 and told %}{% set said = '<<S>>\n' + told + '\n<</S>>\n\n' + m.content %}"
    "{% else %}{% set said = m.content %}{% endif %}{% if m.role == 'user' %}{{ bos_token + '[I] ' + said + ' [/I]' }}"
    "{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" +
    SAY + TURNS + "{% set role = 'model' if m.role == 'assistant' else m.role %}"
    "{{ '<turn>' + role + '\n' + m.content | trim + '<end>\n' }}{% endfor %}{{ '<turn>model\n' }}",
    "mistral": "{{ bos_token }}" + SAY + TURNS + "{% if m.role == 'user' %}[I] {{ m.content }} [/I]"
    "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
    "phi3": SAY + "{% if m.role == 'system' and m.content %}{{ '<|system|>\n' + m.content + '<|end|>\n' }}"
    "{% elif m.role == 'user' %}{{ '<|user|>\n' + m.content + '<|end|>\n' }}{% elif m.role == 'assistant' %}"
    "{{ '<|assistant|>\n' + m.content + '<|end|>\n' }}{% endif %}{% endfor %}{{ '<|assistant|>\n' }}",
    "zephyr": SAY + "\n{% if m.role == 'user' %}\n{{ '<|user|>\n' + m.content + eos_token }}\n"
    "{% elif m.role == 'system' %}\n{{ '<|system|>\n' + m.content + eos_token }}\n"
    "{% elif m.role == 'assistant' %}\n"
    "{{ '<|assistant|>\n' + m.content + eos_token }}\n{% endif %}\n"
    "{% if loop.last %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
    "{% endfor %}",
}  # fmt: skip
# As reasoning models: thoughts of before are left out of what the assistant said.
THOUGHTS = (
    SAY + "{% set said = m.content %}{% if m.role == 'assistant' and '</think>' in said %}"
    "{% set said = said.split('</think>')[-1].lstrip('\n') %}{% endif %}<|{{ m.role }}|>{{ said }}<|end|>{% endfor %}"
    "<|assistant|>"
)


def table_of(source: str, date: datetime | None = None) -> ChatTable:
    return compile_chat(ChatTemplate(source, NAMES, date), source)


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    table, template = table_of(FAMILIES[name]), ChatTemplate(FAMILIES[name], NAMES)
    assert table.history is None
    assert (("begin", "system") in table.between) == (name not in ("gemma", "mistral"))
    assert table.trimmed == (frozenset(("system", "user", "assistant")) if name == "llama3" else
                             frozenset(("user", "assistant")) if name == "gemma" else frozenset())  # fmt: skip
    talks = [[("user", "Hi {{ x }}")], [("user", " a\n"), ("assistant", "\u00a0b"), ("user", "</think>")]]
    if name not in ("gemma", "mistral"):
        talks += [[("system", "You\n"), *talk] for talk in talks]
    for talk in talks:
        want = template.render([{"role": role, "content": text} for role, text in talk])
        assert table.render(talk) == want


def test_answers_that_a_template_changes() -> None:
    table = table_of(THOUGHTS)
    assert table.history is not None
    assert "depends on what the assistant said, as '</think>" in table.history
    assert table.render([("user", "a"), ("assistant", "b"), ("user", "c")]) == (
        "<|user|>a<|end|><|assistant|>b<|end|><|user|>c<|end|><|assistant|>"
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (CHATML + "{{ messages | length }}", "what it writes before an answer depends"),
        (
            SAY + "{{ loop.index }}{{ m.role }}{{ m.content }}{% endfor %}",
            "between begin and user|depends on more than",
        ),
        (SAY + "{{ m.content }}{{ m.content }}{% endfor %}", "does not write each message once"),
        (SAY + "{% endfor %}", "does not write each message once"),
        (CHATML + "{{ strftime_now('%Y') }}", "it writes the date of the day"),
        ("{{ raise_exception('never') }}", "refuses these messages: never"),
        (SAY + "{{ m.role }}{{ m.content | replace('bad', 'good') }}{% endfor %}", "depends on what the user says"),
        (
            SAY + "{{ m.role }}{% if m.content != '/no' %}{{ m.content }}{% endif %}{% endfor %}",
            "on what the user says",
        ),
        (SAY + "{{ m.role }}{{ m.content | upper }}{% endfor %}", "depends on what the user says"),
        (SAY + "{{ m.role }}{{ m.content.lstrip() }}{% endfor %}", "depends on what the user says"),
        (SAY + "{{ m.role }}{{ m.content | escape }}{% endfor %}", "depends on what is said"),
        (SAY + "{{ m.role }}{{ m.content }}{% endfor %}{{ 'x' * 5000 }}", "more than 4000 bytes"),
        ("{% for k in range(90000) %}{% endfor %}" + CHATML, "takes too long"),
    ],
)
def test_other_forms(source: str, why: str) -> None:
    with pytest.raises(BuildError) as found:
        table_of(source)
    assert found.value.why is not None
    assert why.split("|")[0] in found.value.why or why.split("|")[-1] in found.value.why


def test_a_date_that_is_given() -> None:
    source = CHATML + "{{ strftime_now('%d %b %Y') }}"
    assert table_of(source, datetime(2026, 1, 31)).answer.endswith("31 Jan 2026")
