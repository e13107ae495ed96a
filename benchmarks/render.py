"""A result as a table and as a plot."""

from __future__ import annotations

from html import escape
from typing import Any

__all__ = ["render_plot", "render_table"]

_STAGES = {
    "plan": "#8c8c8c", "receive": "#4c78a8", "land": "#72b7b2", "check": "#f58518",
    "flatten": "#e45756", "stage": "#b279a2", "load": "#54a24b", "publish": "#9d755d",
    "queries": "#eeca3b",
}  # fmt: skip
_PLOTTED = ("run", "prefect", "weekly", "replay", "replay2", "export")
_OTHER = "#bab0ac"
_LEFT, _WIDTH, _BAR, _GAP = 190, 560, 22, 12


def render_table(result: dict[str, Any]) -> str:
    """Render all measurements as Markdown, CPU by stage behind each."""
    machine, starts = result["machine"], result["start_cpu_seconds"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores; Python {machine['python']}; {versions}. "
        f"{machine['measured_at']}, commit {machine['commit']}, median of {result['rounds']}.",
        "",
        f"`firmlake --help` takes {starts['help'] - starts['python']:.2f} s of CPU beyond Python's own "
        f"{starts['python']:.2f}.",
        "",
        "| who | what | companies | CPU s per 1,000 | companies/s | peak MB | bytes/company | CPU s by stage |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in result["measured"]:
        count = row["count"]
        written = sum(row["written_bytes"].values()) / count
        stages = ", ".join(f"{name} {1000 * of / count:.3f}" for name, of in row.get("stages", {}).items())
        lines.append(
            f"| {row['who']} | {row['scenario']} | {count:,} | {1000 * row['cpu_seconds'] / count:.4f} "
            f"| {count / row['wall_seconds']:,.0f} | {row['peak_bytes'] / 1e6:,.0f} "
            f"| {f'{written:,.0f}' if written else ''} | {stages} |"
        )
    return "\n".join(lines) + "\n"


def render_plot(result: dict[str, Any]) -> str:
    """Render CPU time per 1,000 companies of all whole runs as bars, firmlake's by stage."""
    rows = [row for row in result["measured"] if row["scenario"] in _PLOTTED]
    most = max((row["cpu_seconds"] / row["count"] for row in rows), default=1.0)
    height = (len(rows) + 2) * (_BAR + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 90} {height}" '
        'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{_LEFT}" y="20">CPU seconds per 1,000 companies</text>'
    ]
    for place, row in enumerate(rows, 1):
        y = place * (_BAR + _GAP)
        label = f"{row['who']} {row['scenario']} {row['count']:,}"
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 16}" text-anchor="end">{escape(label)}</text>')
        known = row.get("stages", {})
        rest = row["cpu_seconds"] - sum(known.values())
        x = float(_LEFT)
        for name, of in {**known, "": rest}.items():
            width = max(0.0, of) / row["count"] / most * _WIDTH
            color = _STAGES.get(name, _OTHER)
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{color}"/>')
            x += width
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 16}">{1000 * row["cpu_seconds"] / row["count"]:.3f}</text>')
    y = (len(rows) + 1) * (_BAR + _GAP) + 14
    for place, (name, color) in enumerate({**_STAGES, "other": _OTHER}.items()):
        x = 20 + place * 85
        parts.append(f'<rect x="{x}" y="{y - 11}" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{x + 17}" y="{y}">{name}</text>')
    return "".join(parts) + "</svg>\n"
