"""The style sheet of a report. Colours are named once, for light and for dark; each text on its ground is readable."""

from __future__ import annotations

LIGHT = {
    "ground": "#fafaf8",
    "card": "#ffffff",
    "sunk": "#f3f4f1",
    "ink": "#1b1e22",
    "muted": "#575e66",
    "line": "#dfe0db",
    "accent": "#0b6b66",
    "tint": "#e3f1ef",
    "query": "#7a4f9e",
    "query-tint": "#f3ecf8",
    "bad": "#a8231b",
    "bad-tint": "#fcefed",
    "warn": "#7a5200",
    "warn-tint": "#fbf2dd",
    "keyword": "#8a2b6b",
    "string": "#2c6a1f",
    "comment": "#646b72",
    "number": "#8a4300",
}
DARK = {
    "ground": "#121518",
    "card": "#191d21",
    "sunk": "#0e1113",
    "ink": "#e7eaec",
    "muted": "#a2abb4",
    "line": "#2d343a",
    "accent": "#5fcbc2",
    "tint": "#12312f",
    "query": "#c9a5e8",
    "query-tint": "#2a2033",
    "bad": "#ff9d94",
    "bad-tint": "#331a18",
    "warn": "#efc25f",
    "warn-tint": "#302611",
    "keyword": "#f19bd0",
    "string": "#9ad18b",
    "comment": "#98a1aa",
    "number": "#f0b07a",
}

_RULES = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:60rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.6rem;line-height:1.3;margin:.25rem 0 1rem;overflow-wrap:anywhere;font-weight:650;letter-spacing:-.01em}
h2{font-size:1.05rem;margin:2.25rem 0 .75rem;font-weight:650}
p{margin:.5rem 0}
.brand{color:var(--muted);font-size:.85rem;margin:0}
.brand b{color:var(--accent);font-weight:650}
.pre{white-space:pre-wrap;overflow-wrap:anywhere}
pre{margin:0;padding:.75rem .9rem;background:var(--sunk);border:1px solid var(--line);border-radius:.5rem;overflow:auto;
max-height:32rem;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;tab-size:4;
white-space:pre-wrap;overflow-wrap:anywhere}
pre.code{white-space:pre}
.k{color:var(--keyword)}.s{color:var(--string)}.c{color:var(--comment)}.n{color:var(--number)}
.h{color:var(--query);font-weight:600}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.5rem,1fr));gap:.6rem;margin:1.25rem 0 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.6rem .8rem}
.tiles dt{color:var(--muted);font-size:.8rem}
.tiles dd{margin:0;font-size:1.2rem;font-weight:600;font-variant-numeric:tabular-nums}
.answer{background:var(--tint);border:1px solid var(--line);border-left:4px solid var(--accent);border-radius:.6rem;
padding:.9rem 1.1rem}
.answer.partial{background:var(--warn-tint);border-left-color:var(--warn)}
.answer.none{background:var(--bad-tint);border-left-color:var(--bad)}
.label{font-size:.8rem;font-weight:650;color:var(--accent);margin:0 0 .25rem}
.partial>.label{color:var(--warn)}.none>.label{color:var(--bad)}
.note{background:var(--warn-tint);color:var(--warn);border-radius:.5rem;padding:.4rem .8rem;font-size:.9rem;
margin:.5rem 0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th{color:var(--muted);font-weight:500;text-align:left}
th,td{padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th.num{text-align:right}
.wide{overflow-x:auto}
details{margin:0}
summary{cursor:pointer;list-style:none;border-radius:.4rem}
summary::-webkit-details-marker{display:none}
summary::before{content:"";display:inline-block;width:.42em;height:.42em;margin:0 .6em .12em .1em;
border:solid var(--muted);border-width:0 2px 2px 0;transform:rotate(-45deg);flex:none}
details[open]>summary::before{transform:rotate(45deg);margin-bottom:.25em}
summary:focus-visible,a:focus-visible,pre:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.turns{margin:0;padding:0;list-style:none}
.turns>li{position:relative;padding:0 0 1rem 2.6rem}
.turns>li::before{content:"";position:absolute;left:.86rem;top:0;bottom:0;width:3px;background:var(--line)}
.turns>li:last-child::before{bottom:auto;height:1.2rem}
.dot{position:absolute;left:0;top:.1rem;width:1.9rem;height:1.9rem;border-radius:50%;background:var(--card);
border:2px solid var(--accent);color:var(--accent);display:grid;place-items:center;font-size:.8rem;font-weight:700;
font-variant-numeric:tabular-nums}
.failed>.dot{border-color:var(--bad);color:var(--bad)}
.final>.dot{background:var(--accent);color:var(--card)}
.turn>summary,.query>summary{display:flex;align-items:baseline;flex-wrap:wrap;gap:.1rem .75rem;padding:.3rem 0}
.turn>summary{padding-top:.2rem}
.turn>summary::before,.query>summary::before{margin-right:-.15rem}
.turn>summary b{font-weight:650}
.meta{color:var(--muted);font-size:.85rem;font-variant-numeric:tabular-nums}
.bad{color:var(--bad)}
.body{padding:.25rem 0 .5rem}
.bar{display:block;flex:0 0 100%;width:100%;height:6px;margin:.25rem 0 .2rem;
border-radius:3px;background:var(--line);overflow:hidden}
.bar rect{fill:var(--accent)}
.query .bar rect{fill:var(--query)}
.query .bar{height:3px}
.part{margin:.6rem 0 0}
.part>.label,.fold>summary{font-size:.8rem;color:var(--muted);font-weight:600;margin:0 0 .25rem}
.fold{margin:.6rem 0 0}
.error pre{background:var(--bad-tint);border-color:var(--bad);color:var(--bad)}
.error>.label{color:var(--bad)}
.queries{margin:0;padding:0;list-style:none;border:1px solid var(--line);border-radius:.6rem;
background:var(--card)}
.queries>li{padding:.15rem .8rem}
.queries>li+li{border-top:1px solid var(--line)}
.chip{background:var(--query-tint);color:var(--query);border-radius:1rem;padding:.05rem .6rem;font-size:.8rem;
font-weight:600;overflow-wrap:anywhere}
.chip.depth{background:var(--tint);color:var(--accent)}
.chip.off{background:var(--bad-tint);color:var(--bad)}
.first{font-size:.95rem;flex:1 1 14rem;min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.heard{flex:0 0 100%;min-width:0;padding-left:1.3rem;color:var(--muted);font-size:.85rem;overflow:hidden;
text-overflow:ellipsis;white-space:nowrap}
.heard.bad{color:var(--bad)}
.query[open] .heard{display:none}
.nested{border-left:3px solid var(--query);margin:.75rem 0;padding-left:1rem}
footer{margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line);color:var(--muted);font-size:.85rem;
overflow-wrap:anywhere}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media(max-width:40rem){main{padding:1.25rem .9rem 3rem}h1{font-size:1.3rem}.turns>li{padding-left:2.2rem}
.nested{padding-left:.6rem}.nested .turns>li{padding-left:2rem}.tiles{grid-template-columns:repeat(2,1fr)}
.first{flex-basis:100%}pre{font-size:12px}}
@media print{main{max-width:none;padding:0}pre{max-height:none;white-space:pre-wrap}body{background:#fff;font-size:11pt}
.answer,.tiles{break-inside:avoid}h2,summary,.label{break-after:avoid}
details::details-content{content-visibility:visible;display:block}.query[open] .heard{display:block}}
"""


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


STYLE = (
    f":root{{{_variables(LIGHT)}}}@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}{_RULES}"
)
