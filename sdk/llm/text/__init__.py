"""Texts of language models: tokenizers on the host and for devices.

``tokenizer`` and ``gguf_vocabulary`` read them, ``table`` compiles them for devices with what ``pipeline``,
``patterns`` and ``characters`` find out, ``native`` runs the C of devices here.
"""

from sdk.llm.text.gguf_vocabulary import tokenizer_of_gguf
from sdk.llm.text.native import DeviceTokenizer
from sdk.llm.text.table import compile_table
from sdk.llm.text.tokenizer import load_tokenizer

__all__ = ["DeviceTokenizer", "compile_table", "load_tokenizer", "tokenizer_of_gguf"]
