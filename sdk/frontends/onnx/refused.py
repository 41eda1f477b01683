"""Operators that are not taken, with the reason: what they work on or depend on has no static form here."""

from __future__ import annotations

from typing import Final

from sdk.errors import BuildError
from sdk.frontends.failures import UNSUPPORTED

__all__ = ["REFUSED", "refusal"]

_TEXT: Final = "text is not supported: it has no size that is known when the model is built"
_SPLIT: Final = "do this step before the model, and export the rest from the numbers that it makes"
_IMAGE: Final = "images are decoded before the model"
_TRAINING: Final = "it is for training, models are compiled to be run"
_SEARCH: Final = "it runs a model as often as its data say; export the model inside it, and search in your own code"
_CHIP: Final = "it is for one processor's layout of memory"
_MAPS: Final = "maps from keys to numbers are not supported: they have no static form"

# By operator: why, and what helps.
REFUSED: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(
        (
            "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "ai.onnx.ml::CategoryMapper",
            "com.microsoft::MurmurHash3", "com.microsoft::Tokenizer", "com.microsoft::WordConvEmbedding",
        ),
        (_TEXT, _SPLIT),
    ),
    **dict.fromkeys(("ai.onnx.ml::CastMap", "ai.onnx.ml::DictVectorizer"), (_MAPS, _SPLIT)),
    "ImageDecoder": (_IMAGE, "give the model the pixels"),
    **dict.fromkeys(
        (f"ai.onnx.preview.training::{name}" for name in ("Adagrad", "Adam", "Gradient", "Momentum")),
        (_TRAINING, "export the model for inference"),
    ),
    **dict.fromkeys(
        (
            f"com.microsoft::{name}"
            for name in (
                "BeamSearch", "BifurcationDetector", "GreedySearch", "NGramRepeatBlock", "Sampling",
                "WhisperBeamSearch",
            )
        ),
        (_SEARCH, "compile the decoder as an entry of its own: sdk build prefill=a.onnx decode=b.onnx"),
    ),
    **dict.fromkeys(
        (
            f"com.microsoft.nchwc::{name}"
            for name in (
                "AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput",
                "Upsample",
            )
        ),
        (_CHIP, 'save the optimised model at the level "extended", not "all"'),
    ),
}  # fmt: skip


def refusal(key: str, version: int, plain: bool) -> BuildError:
    """The error for the operator ``key`` ("domain::Name", or "Name" of ONNX's own, which ``plain`` says): that it is
    not supported, and why where that is a decision."""
    known = f" of opset {version}" if plain else ""
    why, hint = REFUSED.get(key, ("", ""))
    return BuildError(f"{UNSUPPORTED} {key}{known}{f': {why}' if why else ''}", hint=hint or None)
