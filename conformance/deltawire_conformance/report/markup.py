"""Making HTML of text: nothing gets into the page but through here."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from deltawire_conformance.report.plain import plain_text, plain_value

_MOST = 20_000
"""Characters of one text that are shown; all of it is in ``results.json``."""
_CODE = re.compile(r"`([^`]+)`")


def text(value: object) -> str:
    """Escape any text."""
    return html.escape(plain_text(str(value)))


def prose(value: str) -> str:
    """Escape a text of SPEC.md; code spans, and nothing else, become markup."""
    return _CODE.sub(r"<code>\1</code>", text(value))


def block(label: str, content: str) -> str:
    """A text of more than one line; empty ones are left out."""
    if not content.strip():
        return ""
    shown = content if len(content) <= _MOST else content[:_MOST] + f"\n… {len(content) - _MOST:,} more characters"
    return f'<h4>{text(label)}</h4>\n<pre tabindex="0" aria-label="{text(label)}">{text(shown)}</pre>'


def as_json(value: Any) -> str:
    """A JSON value as text: short ones on one line."""
    plain = plain_value(value)
    line = json.dumps(plain, ensure_ascii=False)
    return line if len(line) <= 100 else json.dumps(plain, indent=2, ensure_ascii=False)
