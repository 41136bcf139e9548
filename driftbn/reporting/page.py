"""What pages of reports share: the frame, the style sheet, tables and lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from driftbn.reporting.words import printable

STYLE: Final = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1d232a;--soft:#5a6570;--rule:#d9dee3;
--panel:#f5f7f9;--kept:#8b959f;--added:#00795a;--removed:#c22f10;--reversed:#8f5f00;--node:#fff;
--changed:#0b62b0;--band:#fbe8c8;--raw:#9aa5b1}
@media(prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e6eaee;--soft:#a2adb8;
--rule:#343c45;--panel:#1c2229;--kept:#77828d;--added:#3fd0a3;--removed:#ff8266;--reversed:#f0b13f;
--node:#222a32;--changed:#6cb6ff;--band:#43371c;--raw:#66727e}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:1.45rem;line-height:1.3;margin:.2em 0 .6em}
h2{font-size:1.15rem;margin:1.8em 0 .5em}
h3{font-size:1rem;margin:1.3em 0 .4em}
h1,h2,h3,p,li,dd{overflow-wrap:anywhere}
td{overflow-wrap:break-word}
p{margin:.5em 0}
.level{display:inline-block;padding:1px 10px;border-radius:99px;border:2px solid var(--soft);
font-size:.85rem;font-weight:600}
.level.drift{border-color:var(--removed);color:var(--removed)}
.level.settling,.level.negligible,.level.undecided{border-color:var(--reversed);color:var(--reversed)}
.text{max-width:46rem;padding-left:1.2em}
.text li{margin:.35em 0}
.soft{color:var(--soft)}
.panel{background:var(--panel);border:1px solid var(--rule);border-radius:10px;padding:12px;
margin:.6em 0}
.wide{overflow-x:auto}
.narrow,.for-narrow{display:none}
.narrow{font-size:.85rem}
section.episode{border-top:1px solid var(--rule);margin-top:1.6em}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;vertical-align:top;padding:6px 10px 6px 0;border-bottom:1px solid var(--rule)}
th{color:var(--soft);font-weight:600}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(135px,1fr));gap:8px 16px;margin:0}
dt{color:var(--soft);font-size:.82rem}
dd{margin:0}
svg{display:block;height:auto}
svg text{font:14px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
fill:var(--ink)}
.graph{max-width:100%;margin:0 auto}
.node rect{fill:var(--node);stroke:var(--soft)}
.node text{text-anchor:middle;dominant-baseline:central}
.node.changed rect{stroke:var(--changed);stroke-width:3}
.node.aim text{font-weight:700}
.line path{fill:none;stroke:var(--kept);stroke-width:1.2}
.line polygon{fill:var(--kept)}
.line.added path{stroke:var(--added)}
.line.removed path{stroke:var(--removed);stroke-dasharray:6 4}
.line.reversed path{stroke:var(--reversed);stroke-dasharray:11 4 2 4}
.line.added polygon{fill:var(--added)}
.line.removed polygon{fill:var(--removed)}
.line.reversed polygon{fill:var(--reversed)}
g.added:not(.confirmed),g.removed:not(.confirmed),g.reversed:not(.confirmed){opacity:.65}
.line.confirmed path{stroke-width:3.6}
svg text.sign{text-anchor:middle;dominant-baseline:central;font-size:13px;paint-order:stroke;
stroke:var(--panel);stroke-width:4px;stroke-linejoin:round}
svg text.sign.confirmed{font-weight:700}
svg text.added{fill:var(--added)}
svg text.removed{fill:var(--removed)}
svg text.reversed{fill:var(--reversed)}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;margin:10px 0 0;padding:0;
font-size:.88rem}
.legend li{display:flex;align-items:center;gap:8px}
.legend svg{flex:none}
.timeline{max-width:none}
.timeline text{font-size:13px;fill:var(--soft)}
.timeline text.scale{text-anchor:end;dominant-baseline:central}
.timeline text.tick{text-anchor:middle}
.timeline text.tick.name{text-anchor:end}
.timeline text.episode{fill:var(--reversed);font-weight:600}
.timeline .strip{fill:var(--ink)}
.axis{stroke:var(--soft);fill:none}
.grid{stroke:var(--rule);fill:none;stroke-dasharray:2 4}
.bar.raw{fill:var(--raw)}
.bar.confirmed{fill:var(--removed)}
rect.episode{fill:var(--band)}
rect.chosen{fill:none;stroke:var(--reversed);stroke-width:1.5}
path.alarm{fill:var(--removed)}
@media(max-width:640px){
h1{font-size:1.2rem}
.narrow,.for-narrow{display:block}
.for-wide{display:none}
table.stack thead{display:none}
table.stack tr{display:block;border-bottom:1px solid var(--rule);padding:8px 0}
table.stack td{display:grid;grid-template-columns:6.5rem 1fr;gap:8px;border:0;padding:2px 0;
overflow-wrap:anywhere}
table.stack td::before{content:attr(data-name);color:var(--soft)}}
@media print{.panel{break-inside:avoid}}
"""


def shown(text: object) -> str:
    r"""Return what comes from data as text of a page, whatever it holds.

    Examples
    --------
    >>> shown("<b>\n")
    '&lt;b&gt;\\n'
    """
    return escape(printable(str(text)))


def page(title: str, body: Iterable[str]) -> str:
    """Return a whole page that needs nothing else."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{shown(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def bullets(texts: Sequence[str]) -> str:
    """Return texts as a list; nothing if there are none."""
    items = "".join(f"<li>{shown(text)}</li>" for text in texts)
    return f'<ul class="text">{items}</ul>' if items else ""


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts, which becomes a list on narrow screens; nothing without rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{shown(name)}</th>" for name in names)
    lines = []
    for row in rows:
        cells = zip(names, row, strict=True)
        lines.append(
            "".join(f'<td data-name="{shown(name)}">{shown(cell)}</td>' for name, cell in cells)
        )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="wide"><table class="stack"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Return names with values."""
    items = "".join(
        f"<div><dt>{shown(name)}</dt><dd>{shown(value)}</dd></div>" for name, value in pairs
    )
    return f'<dl class="panel">{items}</dl>'


def section(heading: str, parts: Iterable[str]) -> str:
    """Return parts below a heading; nothing if all are empty."""
    inner = "".join(parts)
    return f"<h2>{shown(heading)}</h2>{inner}" if inner else ""
