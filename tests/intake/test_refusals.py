"""Every refusal that the code names has its sentences, and every sentence is named with the values that it shows."""

import ast
from pathlib import Path
from string import Formatter

import firmlake.intake
import firmlake.match
from firmlake.intake.refusals import REFUSALS

SOURCES = [
    path.read_text() for each in (firmlake.intake, firmlake.match) for path in Path(each.__path__[0]).glob("*.py")
]


def named():
    """The calls of `refusal`: the codes that each may give, and the names of its values."""
    for source in SOURCES:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refusal":
                texts = {each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)}
                yield texts & REFUSALS.keys(), {keyword.arg for keyword in node.keywords}, ast.unparse(node)


def test_every_value_that_a_sentence_shows_is_given():
    for codes, values, call in named():
        texts = [text for code in codes for text in REFUSALS[code]]
        shown = {name for text in texts for _, name, *_ in Formatter().parse(text) if name}
        assert shown <= values, call
        assert shown == values or len(codes) != 1, call


def test_every_sentence_is_used():
    assert [code for code in REFUSALS if f'"{code}"' not in "".join(SOURCES)] == []
