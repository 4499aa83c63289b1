"""A hook of mkdocs: pages made from files outside ``docs``, so that no result and no example is typed twice.

Links in the pages point at the repository's files, which is right where the repository is read; here they are turned to
the pages of the site.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
EXAMPLES = ROOT / "examples"
TARGETS = {
    "benchmarks/results": "results.md",
    "examples": "examples.md",
    "src/speedup_patch/robots": "api/data.md",
    "src/speedup_patch/baselines.py": "api/training.md",
}
"""Which page stands for a file or folder of the repository."""

LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every measured table as a page of its own, the measured data as files, and the examples."""
    for path in sorted(RESULTS.rglob("*")):
        place = f"results/{path.relative_to(RESULTS).as_posix()}"
        if path.suffix == ".md":
            files.append(File.generated(config, place, content=result_page(path)))
        elif path.suffix in {".json", ".svg", ".png"}:
            files.append(File.generated(config, place, abs_src_path=str(path)))
    files.append(File.generated(config, "examples.md", content=examples_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links to the repository's files to pages, and lists the tables where a page asks for them."""
    markdown = markdown.replace("<!-- every table -->", every_table())
    folder = posixpath.dirname(page.file.src_uri)
    return LINK.sub(lambda found: f"]({site_link(found[1], folder)})", markdown)


def site_link(link: str, folder: str) -> str:
    """The page for a link out of ``docs``; other links stay, and mkdocs says when they lead nowhere."""
    inside = posixpath.normpath(posixpath.join("docs", folder, link))
    measured = inside.startswith("benchmarks/results/")
    target = inside.removeprefix("benchmarks/") if measured else TARGETS.get(inside, "")
    return posixpath.relpath(target, folder or ".") if target else link


def every_table() -> str:
    """All committed tables one after the other, each under a heading that leads to its own page."""
    sections: list[str] = []
    for path in sorted(RESULTS.rglob("*.md")):
        place = path.relative_to(RESULTS).as_posix()
        body = re.sub(r"\A# .*\n", "", path.read_text(encoding="utf-8"))
        sections.append(f"## [{title(path)}](results/{place})\n\n{re.sub(r'^#', '##', body, flags=re.MULTILINE)}")
    return "\n\n".join(sections)


def result_page(path: Path) -> str:
    """A table with a heading, and links to the files it was made from."""
    text = path.read_text(encoding="utf-8")
    heading = "" if text.startswith("# ") else f"# {title(path)}\n\n"
    beside = [path.with_suffix(".json"), path.with_name("results.json")]
    data = next((f"\n\n[The data]({file.name}).\n" for file in beside if file.exists()), "")
    return f"{heading}{text}{data}"


def title(path: Path) -> str:
    """A file's own heading, or its name in words."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    if first.startswith("# "):
        return first.removeprefix("# ")
    return (path.parent.name if path.stem in {"table", "main"} else path.stem).replace("_", " ").capitalize()


def examples_page() -> str:
    """Every example with its source."""
    blocks = [f"## {file.name}\n\n```python\n{file.read_text('utf-8')}```" for file in sorted(EXAMPLES.glob("*.py"))]
    intro = "# Examples\n\nThree control loops, each run by the tests in the simulator with a policy that comes along."
    return "\n\n".join([intro, *blocks]) + "\n"
