"""Stories in simple English: what the tiny model is trained on, and whether what it writes is like them."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Final

__all__ = ["is_story", "story"]

WHO: Final = {
    "girl": ("she", ("Lily", "Anna", "Mia", "Rose", "Emma", "Lucy")),
    "boy": ("he", ("Tom", "Ben", "Max", "Sam", "Tim", "Leo")),
}
WORDS: Final = {
    "kind": ("little", "happy", "quiet", "brave", "clever", "kind"),
    "place": ("a small house", "a big city", "a village by the sea", "a house near the forest", "an old castle"),
    "where": ("in the garden", "under a tree", "at the park", "on the beach", "behind the house", "near the river"),
    "color": ("red", "blue", "green", "yellow", "white", "golden"),
    "thing": ("ball", "kite", "boat", "hat", "key", "book", "shell", "stone"),
    "animal": ("dog", "cat", "bird", "rabbit", "frog", "duck", "mouse", "fox"),
    "felt": ("very happy", "a bit afraid", "so excited", "surprised", "curious"),
    "said": ("What a nice day", "Look at this", "I want to play", "This is so pretty", "I like it"),
    "did": ("played", "danced", "laughed", "ran around", "sang a song"),
    "end": ("went home and slept well", "were friends from then on", "lived happily ever after", "had a lot of fun"),
}
BEGIN: Final = "Once upon a time there was a {kind} {who} named {name}."
SENTENCES: Final = (  # those that may follow, in this order: of each group one
    ("{He} lived in {place}.", "{name} liked to play {where}."),
    ("One day {name} found a {color} {thing} {where}.", "One day {name} saw a {color} {thing} {where}."),
    ('"{said}!" said {name}.', "{He} was {felt}.", "{name} took the {thing} and smiled."),
    ("Then a {animal} came and looked at the {thing}.", "Then {he} met a {animal} that wanted the {thing}."),
    ('"Can I have the {thing}?" asked the {animal}.', "The {animal} was {felt}."),
    ("{name} gave the {color} {thing} to the {animal}.", "{name} and the {animal} shared the {thing}."),
    ("They {did} all day.", "They {did} together {where}."),
    ("In the end {name} and the {animal} {end}.",),
)


def story(rng: random.Random) -> str:
    """One of some 10^10: who it is about, the animal and the thing are the same from begin to end."""
    who = rng.choice(sorted(WHO))
    he, names = WHO[who]
    kept = {key: rng.choice(WORDS[key]) for key in ("color", "thing", "animal")}
    kept |= {"who": who, "name": rng.choice(names), "he": he, "He": he.capitalize()}
    chosen = [BEGIN, *(rng.choice(group) for group in SENTENCES)]
    drawn = ({key: rng.choice(words) for key, words in WORDS.items()} | kept for _ in chosen)
    return " ".join(text.format(**words) for text, words in zip(chosen, drawn, strict=True))


def is_story(text: str) -> bool:
    """Whether a text is sentences of these stories, word by word and in their order; not whether they are of the same
    people and things from begin to end."""
    return re.fullmatch(_pattern(), text) is not None


@cache
def _pattern() -> str:
    """All stories as one regular expression."""
    names = [name for _, all_names in WHO.values() for name in all_names]
    pronouns = [he for he, _ in WHO.values()]
    words = {**WORDS, "who": tuple(WHO), "name": names, "he": pronouns, "He": [he.capitalize() for he in pronouns]}
    slots = {key: f"(?:{'|'.join(found)})" for key, found in words.items()}

    def sentence(text: str) -> str:
        parts = re.split(r"\{(\w+)\}", text)  # every second one is the name of a slot
        return "".join(slots[part] if k % 2 else re.escape(part) for k, part in enumerate(parts))

    return " ".join([sentence(BEGIN), *(f"(?:{'|'.join(map(sentence, group))})" for group in SENTENCES)])
