"""Hooks of MkDocs: README.md becomes the first page, the pages of folders are listed, and files outside of docs/ that a page links to are in the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = "index.md"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_OTHERS = "files"
"""The folder of the site for what is outside of docs/."""
_FOLDERS = {"results": "Results", "decisions": "Decisions"}


def on_config(config: Any) -> Any:
    """Add the pages of the folders to the navigation."""
    for folder, title in _FOLDERS.items():
        pages = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / folder).glob("*.md"))
        section = next((entry for entry in config.nav if title in entry), None)
        if section is None:
            config.nav.append({title: pages})
        else:
            section[title] += pages
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the first page, and what pages link to outside of docs/."""
    files.append(File.generated(config, INDEX, content=(ROOT / "README.md").read_text()))
    linked = set[str]()
    for path in (ROOT / "README.md", *DOCS.rglob("*.md")):
        base = path.parent.relative_to(ROOT).as_posix()
        for _, _, target, _ in _LINK.findall(path.read_text()):
            inside = posixpath.normpath(posixpath.join(base, target))
            if "://" not in target and not inside.startswith(("docs/", "..")) and (ROOT / inside).is_file():
                linked.add(inside)
    for name in sorted(linked):
        files.append(File.generated(config, _name_in_site(name), abs_src_path=str(ROOT / name)))
    return files


def _name_in_site(path: str) -> str:
    """Return where a file outside of docs/ is in the site; Markdown is shown as text, because its links would lead nowhere."""
    return f"{_OTHERS}/{path.removesuffix('.md')}{'.txt' if path.endswith('.md') else ''}"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to where their targets are in the site; a link to a folder outside of docs/ becomes its text."""
    uri: str = page.file.src_uri
    base = "" if uri == INDEX else posixpath.join("docs", posixpath.dirname(uri))
    parts = _FENCE.split(markdown)
    return "".join(
        part if part.startswith("```") else _LINK.sub(lambda found: _rewrite(found, uri, base), part) for part in parts
    )


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that loads something from elsewhere: the site is read offline, and tells nobody who reads it."""
    if foreign := re.search(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?((?:https?:)?//[^"' >]+)""", output):
        raise PluginError(f"{page.file.src_uri}: would load {foreign[1]}; nothing of the site may come from elsewhere")
    return output


def _rewrite(found: re.Match[str], uri: str, base: str) -> str:
    image, text, target, anchor = found.groups()
    if "://" in target:
        return found[0]
    inside = posixpath.normpath(posixpath.join(base, target))
    if inside == "README.md":
        there = INDEX
    elif inside.startswith("docs/"):
        there = inside.removeprefix("docs/")
        if (ROOT / inside).is_dir():
            return text
    elif (ROOT / inside).is_file():
        there = _name_in_site(inside)
    else:
        return text
    relative = posixpath.relpath(there, posixpath.dirname(uri) or ".")
    return f"{image}[{text}]({relative}{anchor or ''})"
