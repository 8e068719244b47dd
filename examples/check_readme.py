"""Checks that README.md shows the examples as they are: check_readme.py REPOSITORY

Each block of C++ or CMake stands behind a comment that names its file: <!-- examples/first_program.cpp -->
or, where it shows some lines of that, one after the other: <!-- examples/mapped_files.cpp, in part -->
"""

import pathlib
import re
import sys
import textwrap


def shows(text, block):
    """Whether the block is among the lines, at whatever depth they are indented."""
    return any("\n" + textwrap.indent(block, " " * depth) in text for depth in range(0, 24, 4))


def main():
    root = pathlib.Path(sys.argv[1])
    text = (root / "README.md").read_text()
    blocks = re.findall(r"(?:<!-- (\S+?)(, in part)? -->\n)?```(cpp|cmake)\n(.*?)```\n", text, re.DOTALL)
    problems = []
    for name, part, language, block in blocks:
        if not name:
            problems.append(f"a block of {language} names no file: {block.splitlines()[0]}")
        elif not shows((root / name).read_text(), block) if part else (root / name).read_text() != block:
            problems.append(f"{name} is not what README.md shows")
    if not blocks:
        problems.append("README.md shows no code")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
