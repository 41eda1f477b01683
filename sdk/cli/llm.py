"""``sdk llm``: language models, from a checkpoint to tokens."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from sdk.cli import complete, options, output
from sdk.cli.group import Listed
from sdk.errors import UsageError
from sdk.files import read_regular

_DRAFTED: Final = 4  # tokens that a draft guesses


def _sampling(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say how tokens are chosen."""
    rows = (
        ("--seed", "seed", int, 0, "Seed of the draws."),
        ("--min-p", "min_p", float, 0.0, "Keep tokens with this part of the best one's probability."),
        ("--top-p", "top_p", float, 0.95, "Keep as few tokens as have this probability together."),
        ("--top-k", "top_k", int, 40, "Keep as many tokens; 0: all."),
        ("--temperature", "temperature", float, 0.7, "Spread of the draws; 0: always the most probable token."),
        ("--repetition", "repetition", float, 1.0, "Penalty for tokens that were there."),
    )
    for flag, name, kind, default, text in rows:
        option = click.option(flag, name, type=kind, default=default, show_default=True, metavar="N", help=text)
        command = option(command)
    return command


_THREADS: Final = click.option(
    "--threads", type=click.IntRange(1, 64), metavar="N", help="Threads of an answer (default: all processors)."
)


_DEVICE: Final = click.option(
    "--device", metavar="URI", help="Machine that runs it: tcp://HOST, ssh://HOST or adb:// (default: this one)."
)

_CACHE: Final = click.option(
    "--cache", type=click.Choice(("f32", "f16", "int8")), default="f32", show_default=True,
    help="What keys and values of a conversation are kept in.",
)  # fmt: skip


def _guessing(shift: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that say what is guessed, and what a full context does."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option("--shift", is_flag=True, help=shift),
            click.option("--draft", type=options.FILE,
                         help="Build of a smaller model with the same tokens: it guesses."),
            click.option("--lookup", type=click.IntRange(0), default=0, show_default=True, metavar="N",
                         help="Guess up to N tokens that followed the same words before."),
        ):  # fmt: skip
            command = option(command)
        return command

    return add


def _grammars(*, several: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that name what an answer follows."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for flag, name, text in (
            ("--grammar", "grammars", "rules as llama.cpp writes them"), ("--json-schema", "schemas", "a JSON schema"),
        ):  # fmt: skip
            more = "; repeat it." if several else "."
            option = click.option(flag, name, type=options.FILE, multiple=True, metavar="FILE",
                                  help=f"Answers follow {text} in FILE{more}")  # fmt: skip
            command = option(command)
        return command

    return add


def _rules(grammars: Sequence[Path], schemas: Sequence[Path]) -> dict[str, Any]:
    """Rules by the names of their files."""
    from sdk.llm.grammar import parse_grammar, read_schema

    found: dict[str, Any] = {}
    for path in (*grammars, *schemas):
        if path.stem in found:
            raise UsageError(f"two grammars are called {path.stem}", hint="rename one of the files")
        found[path.stem] = parse_grammar(_read(path)) if path in grammars else read_schema(_json(path))
    return found


def _json(path: Path) -> Any:
    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON", why=str(error)[:200], hint="give a JSON schema") from None


def _sampler(given: Mapping[str, Any]) -> Any:
    from sdk.llm.text.sampler import Sampler, Sampling

    return Sampler(Sampling(**{name: value for name, value in given.items() if name != "seed"}), given["seed"])


@click.group(cls=Listed)
def llm() -> None:
    """Build language models from checkpoints, and run them.

    A checkpoint is a Hugging Face folder (config.json, .safetensors, tokenizer.json) or a .gguf file.
    """


@llm.command()
@click.argument("model", type=options.FILE)
@click.option(
    "--board", metavar="B", default="host", show_default=True, help="Board to build for.",
    shell_complete=complete.board_names,
)  # fmt: skip
@click.option("-o", "--out", type=options.FILE, help="Folder to write (default: out/MODEL-BOARD).")
@click.option("--context", type=click.IntRange(2), metavar="N", help="Positions to have room for (default: 4096).")
@click.option(
    "--chunk", type=click.IntRange(2, 4096), default=128, show_default=True, metavar="N",
    help="Tokens of a prompt that are computed together.",
)  # fmt: skip
@click.option(
    "--quantize", metavar="FORMAT", help="q8_0 or q4_0: matrices of floats in groups of 32, rounded to nearest."
)
@click.option(
    "--calibrate", type=options.FILE, metavar="TEXT", help="A text: --quantize then keeps what matters on it most."
)
@_CACHE
@click.option(
    "--gpu", type=click.Choice(("opencl", "vulkan", "auto")),
    help="Have a GPU run it, by way of this interface; auto: what of it is faster there.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Prefix of all C names (default: from the file's name).")
@click.option(
    "--threads", type=click.IntRange(1, 64), metavar="N",
    help="Most threads that share a run (default: 8; 1 without an operating system).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite files in the folder that were not generated.")
@options.json_option
def build(
    model: Path, board: str, out: Path | None, context: int | None, chunk: int, quantize: str | None, cache: str,
    calibrate: Path | None, gpu: str | None, name: str | None, threads: int | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compile the checkpoint MODEL for a board: C, and on this machine a library that sdk.llm.load runs."""
    from sdk.llm.build import build_model

    made = build_model(
        model, out or Path("out") / f"{model.stem}-{board}", context=context, chunk=chunk, name=name, threads=threads,
        board=board, force=force, quantize=quantize, calibrate=calibrate, cache=cache, gpu=gpu,
    )  # fmt: skip
    if made.choice is not None:
        output.say(made.choice.told, err=True)
    data = {**made.info, "out": str(made.folder), "report": made.report.to_json()}
    if as_json:
        output.print_json(data, 1)
        return
    info, report = made.info, made.report
    output.say(f"{info['architecture']}, {info['config']['layers']} layers, {info['context']:,} positions")
    rows = (("caches", report.state_bytes), ("arena", report.arena_bytes), ("weights", report.weights_bytes))
    for what, size in rows:
        output.say(f"  {what:<8} {size:>15,} B")
    output.say(f"wrote {made.folder}")


@llm.command()
@click.argument("folder", type=options.FILE)
@click.option("--system", metavar="TEXT", help="What the model is told before the conversation.")
@click.option("--prompt", metavar="TEXT", help="Ask this once, and end; - reads it from stdin.")
@click.option("--raw", is_flag=True, help="Go on with the text as it is, without the chat template.")
@click.option("--tokens", type=click.IntRange(1), metavar="N", help="At most so many tokens an answer.")
@_guessing("When the context is full, forget the older half but for --system.")
@click.option("--session", type=options.FILE, help="Go on with the conversation in this file, and keep it there.")
@_grammars(several=False)
@_DEVICE
@_THREADS
@_sampling
def chat(
    folder: Path, system: str | None, prompt: str | None, raw: bool, tokens: int | None, lookup: int,
    draft: Path | None, shift: bool, session: Path | None, grammars: tuple[Path, ...], schemas: tuple[Path, ...],
    device: str | None, threads: int | None, **sampling: Any,
) -> None:  # fmt: skip
    """Talk with the model that sdk llm build wrote to FOLDER; an empty line or Ctrl-D ends it."""
    from sdk.llm.conversation import Conversation
    from sdk.llm.guesses import Draft
    from sdk.llm.saved import save_conversation

    if len(grammars) + len(schemas) > 1:
        raise UsageError("an answer follows one grammar or schema", hint="give --grammar or --json-schema once")
    rules = list(_rules(grammars, schemas).values())
    if session is not None and device is not None:
        raise UsageError("a conversation on another machine cannot be kept", hint="leave out --session, or --device")
    talk, sampler = Conversation.of(folder, threads, device), _sampler(sampling)
    _tell_notes(talk.model)
    with talk.model:
        grammar = talk.speaker.grammar(rules[0]) if rules else None
        guesses = None if draft is None else Draft(Conversation.of(draft, threads), talk)
        lookup = lookup if lookup or draft is None else _DRAFTED
        messages = [{"role": "system", "content": system}] if system else []
        if session is not None:
            messages = _taken_up(session, talk, messages, raw=raw)
        for text in _asked(prompt):
            messages.append({"role": "user", "content": text})
            ids = talk.speaker.encode(text) if raw else talk.speaker.encode_chat(messages)
            said = []
            keep = talk.speaker.kept(messages, raw=raw) if shift else None
            for piece in talk.answer(
                ids, sampler, max_tokens=tokens, lookup=lookup, draft=guesses, grammar=grammar, keep=keep
            ):
                said.append(piece.text)
                output.say_part(piece.text)
            output.say("")
            messages.append({"role": "assistant", "content": "".join(said)})
            if session is not None:
                save_conversation(session, talk, messages)


def _tell_notes(model: Any) -> None:
    """What a GPU does not run, to stderr."""
    for line in model.notes:
        output.say(f"note: {line}", err=True)


def _taken_up(session: Path, talk: Any, messages: list[dict[str, str]], *, raw: bool) -> list[dict[str, str]]:
    """The messages of a conversation that is gone on with, or of a new one."""
    from sdk.llm.saved import restore_conversation

    if raw:
        raise UsageError("--session keeps chats, not --raw texts", hint="leave one of the two out")
    if not session.exists():
        return messages
    found = restore_conversation(session, talk)
    if messages and found[:1] != messages:
        raise UsageError(f"{session} was begun with another --system", hint="leave --system out, or name another file")
    return found


def _asked(prompt: str | None) -> Iterator[str]:
    """What is asked: once, or line by line until an empty one."""
    if prompt is not None:
        yield sys.stdin.read() if prompt == "-" else prompt
        return
    while True:
        if sys.stdin.isatty():
            output.say_part("> ")
        line = sys.stdin.readline().rstrip("\n")
        if not line:
            return
        yield line


@llm.command()
@click.argument("model", type=options.FILE)
@click.option("--memory", "sizes", multiple=True, metavar="BYTES", help="What a device has, as 512M or 4G; repeat it.")
@click.option(
    "--board", "boards", multiple=True, metavar="B", help="A board whose memory is described; repeat it.",
    shell_complete=complete.board_names,
)  # fmt: skip
@click.option("--chunk", type=click.IntRange(2, 4096), default=128, show_default=True, metavar="N", help="As build.")
@_CACHE
@options.json_option
def fit(model: Path, sizes: tuple[str, ...], boards: tuple[str, ...], chunk: int, cache: str, as_json: bool) -> None:
    """Tell the largest context with which the checkpoint MODEL fits into memory, as it is and quantised.

    Without --memory and --board: for phones, a page in a browser and computers by their memory. An app gets half of a
    phone's, a computer's system 2 GB. On a board weights lie in flash, where it has some.
    """
    from sdk.boards import load_board
    from sdk.llm.checkpoint import open_checkpoint
    from sdk.llm.fitting import DEVICES, Room, largest_context
    from sdk.llm.quantise import MADE

    checkpoint = open_checkpoint(model)
    targets = [Room(text, _bytes(text)) for text in sizes] + [Room.of(load_board(name)) for name in boards]
    formats = {"as it is": None, **{name.lower(): name for name in MADE}}
    found = [
        (target, {title: largest_context(checkpoint.config, checkpoint.weights, target, chunk, format, cache)
                for title, format in formats.items()})
        for target in targets or DEVICES
    ]  # fmt: skip
    if as_json:
        rows = [{"device": r.name, "memory_bytes": r.ram, "flash_bytes": r.flash, "context": fits} for r, fits in found]
        output.print_json({"made_for": checkpoint.config.context_length, "rows": rows}, 1)
        return
    output.say(f"largest --context, of at most {checkpoint.config.context_length:,}; weights, caches and arena counted")
    wide = max(len(target.name) for target, _ in found)
    output.say(f"{'':{wide}} {'memory':>17} B" + "".join(f"{title:>12}" for title in formats))
    for target, maximum in found:
        cells = "".join(f"{'no' if n is None else format(n, ','):>12}" for n in maximum.values())
        output.say(f"{target.name:{wide}} {target.ram:>17,} B{cells}")


def _bytes(text: str) -> int:
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in units else (text, "")
    if not re.fullmatch(r"[1-9][0-9]{0,14}", number):
        raise UsageError(f"--memory {text}: no number of bytes", hint="write 512M or 4G")
    return int(number) * units[unit]


@llm.command()
@click.argument("folder", type=options.FILE)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8080", show_default=True, help="Where to be reached.")
@click.option("--key-file", type=options.FILE, help="File with the secret that requests must have.")
@click.option(
    "--parallel", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N",
    help="Answers at the same time, each with caches of its own; others wait.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Name of the model for clients (default: the build's).")
@_guessing("When the context is full, forget the older half but for the system's message.")
@_THREADS
def serve(
    folder: Path, listen: str, key_file: Path | None, parallel: int, name: str | None, lookup: int,
    draft: Path | None, shift: bool, threads: int | None,
) -> None:  # fmt: skip
    """Serve the model that sdk llm build wrote to FOLDER by OpenAI's interface: /v1/chat/completions and others.

    Without --key-file, this machine alone can reach it.
    """
    from sdk.llm.conversation import Conversation
    from sdk.llm.engine import Engine
    from sdk.llm.model import processors
    from sdk.llm.serving import server_of

    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {listen}: no address", hint="give HOST:PORT, as 127.0.0.1:8080")
    key = None if key_file is None else _read(key_file).strip()
    if key == "":
        raise UsageError(f"{key_file} is empty", hint="write a secret into it")
    threads = threads or max(processors() // parallel, 1)
    talk = Conversation.of(folder, threads)
    called = name or str(talk.model.info["name"])
    smaller = None if draft is None else Conversation.of(draft, threads)
    lookup = lookup if lookup or draft is None else _DRAFTED
    engine = Engine(talk, parallel, lookup=lookup, draft=smaller, shift=shift)
    try:
        server = server_of(engine, called, host.strip("[]"), int(port), key)
        output.say(f"{called} at http://{host}:{server.port}/v1; Ctrl-C ends it")
        sys.stdout.flush()
        server.run()
    finally:
        engine.close()


@llm.command()
@click.argument("folder", type=options.FILE)
@click.option("--prompts", metavar="N,N", default="128,512", show_default=True, help="Lengths of prompts, in tokens.")
@click.option("--tokens", type=click.IntRange(1), default=32, show_default=True, metavar="N", help="Tokens after each.")
@_DEVICE
@_THREADS
@options.json_option
def bench(
    folder: Path, prompts: str, tokens: int, device: str | None, threads: int | None, as_json: bool
) -> None:  # fmt: skip
    """Measure the model that sdk llm build wrote to FOLDER: tokens per second, time to load, memory."""
    from sdk.llm.measure import bench_model

    data = bench_model(folder, _lengths(prompts), tokens, threads=threads, device=device)
    if as_json:
        output.print_json(data, 1)
        return
    output.say(f"{'prompt':>8} {'prefill':>14} {'decode':>14}")
    for row in data["lengths"]:
        output.say(f"{row['prompt']:>8} {row['prefill']:>8,.1f} tok/s {row['decode']:>8,.1f} tok/s")
    peak = data["peak_bytes"]
    memory = f", {peak:,} B of memory at most" if peak else ""
    output.say(f"{data['threads']} threads, loaded in {data['load_ms']:.1f} ms{memory}")


def _lengths(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdigit() and 0 < int(part) < 1 << 31 for part in parts):
        raise UsageError(f"--prompts {text}: no lengths", hint="give numbers of tokens, as 128,512")
    return [int(part) for part in parts]


@llm.command("eval")
@click.argument("folder", type=options.FILE)
@click.argument("text", type=options.FILE)
@click.option("--window", type=click.IntRange(3), metavar="N", help="Tokens of a window (default: the context).")
@_DEVICE
@options.json_option
def evaluate(folder: Path, text: Path, window: int | None, device: str | None, as_json: bool) -> None:
    """Tell how well the model in FOLDER foresees the file TEXT: its perplexity."""
    from sdk.llm.measure import perplexity

    data = perplexity(folder, _read(text), window=window, device=device)
    if as_json:
        output.print_json(data, 1)
        return
    output.say(f"perplexity {data['perplexity']:.4f} over {data['tokens']:,} tokens in windows of {data['window']:,}")


def _read(path: Path) -> str:
    try:
        return read_regular(path, 1 << 30).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}", why=str(error)[:200], hint="give a text file in UTF-8") from None


@llm.command()
@click.argument("folder", type=options.FILE)
@_grammars(several=True)
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Day that the chat template writes, if it writes one.")
@options.json_option
def embed(
    folder: Path, grammars: tuple[Path, ...], schemas: tuple[Path, ...], date: datetime | None, as_json: bool
) -> None:
    """Write a conversation in C for an app into FOLDER, which sdk llm build wrote: NAME_chat.h and what it needs."""
    from sdk.llm.embed import embed_chat

    paths, why = embed_chat(folder, _rules(grammars, schemas), date)
    if as_json:
        output.print_json({"files": [str(path) for path in paths], "no_chat_template": why}, 1)
        return
    for path in paths:
        output.say(f"wrote {path}")
    if why is not None:
        output.say(f"without chat_say: {why}")
