"""The Markdown pages of the repository, and the code in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^``` ?(?P<options>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: what it is written in, its title, its text, and the line that it begins on."""

    language: str
    title: str
    code: str
    line: int

    @property
    def shows(self) -> str:
        """The file of the repository that the block shows, and nothing else; empty where it holds code of its own."""
        return "".join(re.findall(r'\A--8<-- "(.*)"\n\Z', self.code))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            language="".join(re.findall(r"^(?:\{ \.)?(\w+)", found["options"])),
            title="".join(re.findall(r'title="(.*?)"', found["options"])),
            code=found["code"],
            line=text[: found.start("code")].count("\n") + 1,
        )
        for found in FENCE.finditer(text)
    ]


def script(page: Path, skipped: set[str]) -> str:
    """The page's Python as one file, each line where it stands on the page: a traceback names the page's lines."""
    lines = [""] * len(page.read_text().splitlines())
    for block in blocks(page):
        if block.language == "python" and block.title not in skipped and not block.shows:
            code = block.code.splitlines()
            lines[block.line - 1 : block.line - 1 + len(code)] = code
    return "\n".join(lines) + "\n"
