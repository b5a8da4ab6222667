#!/usr/bin/env python3
"""Draws docs/plots/readme.svg from the table of figures in README.md: how many times as fast as the better peer Esker is."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, LEFT, ROW, TOP = 760, 270, 24, 46


def rows(readme):
    """The label and the ratio of each row of the table; the first ratio where a row has several."""
    table = readme.split("| Esker / the better |", 1)[1].split("\n\n", 1)[0]
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        label = re.sub(r", 1 / 8 / 16 threads$", ", 16 threads", cells[0])
        yield label, float(cells[-1].split(" / ")[-1])


def drawn(figures):
    scale = (WIDTH - LEFT - 60) / max(ratio for _, ratio in figures)
    height = TOP + ROW * len(figures) + 10
    one = LEFT + scale
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="18" font-weight="bold">Operations a second: Esker / the better of LevelDB and RocksDB</text>',
        f'<text x="{one:.1f}" y="38" text-anchor="middle" fill="#555555">1: as fast</text>',
    ]
    for i, (label, ratio) in enumerate(figures):
        y = TOP + ROW * i
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{label}</text>',
            f'<rect x="{LEFT}" y="{y + 2}" width="{ratio * scale:.1f}" height="{ROW - 7}" fill="#1f77b4"/>',
            f'<text x="{LEFT + ratio * scale + 6:.1f}" y="{y + 14}">{ratio:g}</text>',
        ]
    lines.append(f'<line x1="{one:.1f}" y1="{TOP - 4}" x2="{one:.1f}" y2="{height - 8}" stroke="#d62728" stroke-dasharray="4 3"/>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    figures = list(rows((ROOT / "README.md").read_text()))
    (ROOT / "docs/plots/readme.svg").write_text(drawn(figures))
