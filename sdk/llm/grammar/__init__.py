"""Answers that follow a grammar or a JSON schema: which tokens may come next, on the host and on devices."""

from __future__ import annotations

from sdk.llm.grammar.gbnf import parse_grammar
from sdk.llm.grammar.native import Grammar, GrammarRun
from sdk.llm.grammar.schema import any_json, read_schema
from sdk.llm.grammar.words import Words, words_of

__all__ = ["Grammar", "GrammarRun", "Words", "any_json", "parse_grammar", "read_schema", "words_of"]
