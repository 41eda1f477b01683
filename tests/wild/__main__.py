"""Runs the command with this folder's neighbours importable, as pytest has them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wild.command import main

if __name__ == "__main__":
    sys.exit(main())
