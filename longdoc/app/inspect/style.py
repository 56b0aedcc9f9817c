"""The style sheet of the page: light and dark, wide and narrow."""

STYLE = """
:root { color-scheme: light dark; --paper: #fbfbfa; --card: #fff; --ink: #1c1f23; --soft: #5d646d; --line: #dfe2e6;
  --bar: #5b7fa6; --lost: #d0743c; --part0: #5b7fa6; --part1: #9cb8d3; --part2: #d3a35b; --mark: #1c1f23;
  --bad: #b3261e; --good: #1e6b45; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181b; --card: #1e2125; --ink: #e6e8ea; --soft: #a0a7b0;
  --line: #34393f; --bar: #6f9ac9; --lost: #e28a52; --part0: #6f9ac9; --part1: #3f5f80; --part2: #cf9f57;
  --mark: #e6e8ea; --bad: #f2857c; --good: #7fd0a5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif;
  -webkit-text-size-adjust: 100%; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .25rem 0 .75rem; }
.note, figcaption, .legend { color: var(--soft); font-size: .875rem; overflow-wrap: anywhere; }
section { margin-top: 2.5rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin-top: 1.25rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .75rem 1rem; }
.card b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .875rem; }
.verdict { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--good);
  border-radius: 8px; padding: 1.25rem 1.5rem; margin-top: 1.25rem; }
.headline { font-size: 1.15rem; font-weight: 600; }
ul { margin: .25rem 0; padding-left: 1.25rem; }
li { margin: .3rem 0; overflow-wrap: anywhere; }
.faults li::marker { content: "!  "; color: var(--bad); font-weight: 700; }
pre { margin: .25rem 0; padding: .75rem 1rem; background: var(--paper); border: 1px solid var(--line);
  border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
code, pre { font: .85rem/1.45 ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace; }
figure { margin: 0 0 1rem; max-width: 42rem; }
figure svg { display: block; width: 100%; height: auto; }
svg text { font: 11.5px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; fill: var(--soft);
  font-variant-numeric: tabular-nums; }
svg text.mark { fill: var(--mark); font-weight: 600; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
svg line.mark { stroke: var(--mark); stroke-width: 1.25; stroke-dasharray: 4 3; }
.bar { fill: var(--bar); background: var(--bar); }
.lost { fill: var(--lost); background: var(--lost); }
.part0 { fill: var(--part0); background: var(--part0); }
.part1 { fill: var(--part1); background: var(--part1); }
.part2 { fill: var(--part2); background: var(--part2); }
svg.row { display: block; width: 100%; min-width: 5rem; height: .75rem; }
.legend span, figcaption span { display: inline-block; margin-right: 1rem; }
.legend i, figcaption i { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px;
  margin-right: .4rem; vertical-align: -.05rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: bottom; }
td { white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; min-width: 3.5rem; max-width: 16rem; overflow-wrap: anywhere; }
th bdi { display: inline-block; min-width: 8rem; }
thead th { color: var(--soft); font-weight: 500; font-size: .825rem; line-height: 1.25; }
tbody th { font-weight: 500; }
td:has(svg) { width: 45%; vertical-align: middle; }
.total th, .total td { color: var(--soft); border-bottom: 0; }
.none { color: var(--bad); }
summary { font-size: 1.15rem; font-weight: 600; cursor: pointer; }
.findings { list-style: none; padding: 0; font-size: .9rem; }
.findings code { color: var(--soft); margin-right: .4rem; }
"""
