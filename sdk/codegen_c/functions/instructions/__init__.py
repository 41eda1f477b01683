"""The instructions that C code may use, a file for each architecture; ``lookup`` finds them in this folder."""
