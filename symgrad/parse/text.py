"""From the text of a formula to Python's syntax tree, after a look at its tokens.

Python's parser is fed only with what is known to be short, shallow and made of allowed tokens, so that no text
takes it long or exhausts its stack. The tokens alone also tell most slips of the pen apart, each at its character.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping
from fractions import Fraction

from symgrad.errors import shown
from symgrad.parse.faults import MAX_FAULTS, Fault, FormulaError
from symgrad.spec.names import MAX_NAME

__all__ = ["MODULES", "SYMPY", "TORCH", "Syntax", "in_range", "names_in", "read", "words_in"]

_MAX_LENGTH = 20_000  # characters of a formula
MAX_BRACKETS = 50  # nested in each other
MAX_TOKENS = 5_000
MAX_DIGITS = 400  # characters of a number

# Numbers outside of this range are infinite or zero in every floating-point format.
_LARGEST, _SMALLEST = Fraction(2) ** 1024, Fraction(1, 2**1100)

# A word is a run of letters, digits, '_' and all that is beyond ASCII; whether it is a name is found out later.
_WORD = r"[^\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f\s]"
_TOKEN = re.compile(
    rf"""(?P<blank>\s+)
    |(?P<number>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)(?P<suffix>{_WORD}*)
    |(?P<text>'[^'\\\r\n]*'|"[^"\\\r\n]*")
    |(?P<word>{_WORD}+)
    |(?P<mark>\*\*|//|<<|>>|->|:=|[=!<>]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_EXPONENT = re.compile(r"[eE]([+-]?)0*([0-9]*)$")

_BINARY = frozenset({
    "*", "/", "//", "%", "@", "**", "<", "<=", ">", ">=", "==", "!=", "&", "|", "and", "or",
    "if", "else"})  # fmt: skip
_SIGNS = frozenset({"+", "-"})
_PREFIXES = frozenset({"~", "not"})
_VALUES = frozenset({"True", "False", "None"})
_CLOSING = {"(": ")", "[": "]"}

# What other languages, or Python itself, would allow here; and what to write.
_REFUSED: Mapping[str, str] = {
    "^": "'^' is not an operator; did you mean '**'?",
    "<<": "'<<' is not an operator; did you mean '<'?",
    ">>": "'>>' is not an operator; did you mean '>'?",
    ":=": "':=' is not an operator; name intermediates under 'let'",
    "->": "'->' is not an operator",
    "!": "'!' is not an operator; did you mean 'not', or lgamma(n + 1)?",
    "{": "braces are not part of the language",
    "}": "braces are not part of the language",
    ":": "':' is not part of the language",
    ";": "a formula is one expression; name intermediates under 'let'",
    "#": "a comment cannot stand inside of a formula",
    "\\": "a backslash has no place in a formula; it may extend over several lines as it is",
    "'": "a text that is never closed, or that holds a backslash",
    '"': "a text that is never closed, or that holds a backslash",
    "in": "'in' is not an operator; compare with '==' and 'or'",
    "is": "'is' is not an operator; did you mean '=='?",
    "lambda": "'lambda' is not part of the language",
}
# What is meant by characters of a typeset formula, which are given by their numbers: they look like others.
_MEANT: Mapping[int, str] = {
    0xD7: "*", 0xB7: "*", 0x22C5: "*", 0x2217: "*", 0xF7: "/", 0x2215: "/", 0x2044: "/",
    0x2212: "-", 0x2013: "-", 0x2014: "-", 0x2264: "<=", 0x2265: ">=", 0x2260: "!=",
    0xB2: "**2", 0xB3: "**3", 0xBD: "1/2", 0x221A: "sqrt", 0x221E: "oo",
    0x2227: "and", 0x2228: "or", 0xAC: "not", 0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"',
}  # fmt: skip


class Syntax:
    """A formula as Python's syntax tree, whose nodes know their place in the text."""

    def __init__(self, text: str, line: str) -> None:
        self._shift = len(text) - len(line)
        self._bytes = None if line.isascii() else line.encode()
        self._line = line
        self.tree = ast.parse(line, mode="eval").body

    def offset(self, node: ast.AST) -> int:
        """Where the node starts in the formula's text."""
        return self._shift + self._column(getattr(node, "col_offset", 0))

    def source(self, node: ast.expr) -> str:
        """The text of the node."""
        return self._line[self._column(node.col_offset) : self._column(node.end_col_offset or 0)]

    def _column(self, column: int) -> int:
        """Python counts the bytes of UTF-8."""
        return column if self._bytes is None else len(self._bytes[:column].decode())


def read(text: str) -> Syntax:
    """The syntax tree of ``text``. Raises FormulaError."""
    if len(text) > _MAX_LENGTH:
        raise FormulaError([Fault(_MAX_LENGTH, f"a formula has at most {_MAX_LENGTH} characters; use 'let'")])
    scanner = _Scanner(text)
    faults = scanner.faults()
    if faults:
        raise FormulaError(faults)
    try:
        return Syntax(text, "".join(scanner.pieces).lstrip())
    except SyntaxError as error:
        place = max(0, (error.offset or 1) - 1) + len(text) - len(text.lstrip())
        raise FormulaError([Fault(min(place, len(text)), "not an expression from here on")]) from None
    except (RecursionError, MemoryError):
        raise FormulaError([Fault(0, "nested too deeply; use 'let'")]) from None


# What functions may stand behind, as in `torch.where(...)`.
TORCH = frozenset({"torch", "torch.special", "torch.linalg", "torch.nn.functional", "nn.functional", "F"})
SYMPY = frozenset({"sympy", "sp"})
MODULES = TORCH | SYMPY


def names_in(text: str) -> set[str]:
    """The names that a formula reads; not those of the functions that it calls. Raises FormulaError."""
    nodes = list(ast.walk(read(text).tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called}


def words_in(text: str) -> list[str]:
    """The words of a text that is no formula which may have been meant as names, in its order."""
    matches = [m for m in _TOKEN.finditer(text[:_MAX_LENGTH]) if m.lastgroup == "word"]
    words = [m.group() for m in matches if not text[m.end() :].lstrip().startswith("(")]
    return [w for w in dict.fromkeys(words) if w.isidentifier() and not keyword.iskeyword(w)]


class _Scanner:
    """Looks at the tokens one by one.

    What came before is the start, an operand, an operator, an open bracket, a comma, or, after a mistake, any of them.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._faults: list[Fault] = []
        self._open: list[tuple[str, int, bool]] = []  # bracket, offset, whether it is a call's or subscript's
        self._before = "start"
        self._token = ""  # the one before
        self._ifs: list[int] = []  # offsets of those whose 'else' is to come
        self._argument = False  # whether the token before is a word that may name an argument
        self.pieces: list[str] = []  # the text on one line, of the same length

    def faults(self) -> list[Fault]:
        """What is wrong with the tokens."""
        count = 0
        for match in _TOKEN.finditer(self._text):
            kind, token = match.lastgroup or "", match.group()
            if kind == "blank":
                self.pieces.append(" " * len(token))
                continue
            self.pieces.append(token)
            count += 1
            if count > MAX_TOKENS:
                self._add(match.start(), "a formula this long is better divided; use 'let'")
                return self._faults
            if not self._look(kind, token, match) or len(self._faults) >= MAX_FAULTS:
                return self._faults
        self._end()
        return self._faults

    def _add(self, offset: int, message: str) -> None:
        """Note a mistake, but none in a subscript, which is looked at as a whole: colons and dots stand there."""
        if not any(bracket == "[" and follows for bracket, _, follows in self._open):
            self._faults.append(Fault(offset, message))

    def _look(self, kind: str, token: str, match: re.Match[str]) -> bool:
        """Check one token after the one before it; whether it makes sense to go on."""
        at = match.start()
        named = kind == "word" and not keyword.iskeyword(token)
        argument = named and self._before in ("open", "comma")
        if kind in ("number", "suffix"):
            self._number(at, match["number"], match["suffix"])
        if named and not self._name(at, token):
            self._before = "any"
        elif kind == "mark" and token in "()[]":
            if not self._bracket(at, token):
                return False
        elif named or kind not in ("word", "mark") or token in _VALUES:
            self._operand(at, token)
        else:
            self._operator(at, token)
        self._token, self._argument = token, argument
        return True

    def _operand(self, at: int, token: str) -> None:
        if self._before == "operand":
            self._add(at, f"an operator is missing between {shown(self._token)} and {shown(token)}")
        self._before = "operand"

    def _operator(self, at: int, token: str) -> None:
        before, self._before = self._before, "operator"
        if token in _PREFIXES:
            if before == "operand":
                self._add(at, f"an operator is missing before {token!r}")
        elif token == "*" and before in ("open", "comma") and self._open[-1][0] == "(" and self._open[-1][2]:
            pass  # sizes that are spread, f(*x.shape[:-1], 2)
        elif token in _BINARY or token in (",", "."):
            if before not in ("operand", "any"):
                self._add(at, f"an operand is missing before {token!r}")
            elif token == "," and not self._open:
                self._add(at, "a formula is one expression; what stands after ',' has no meaning")
            self._before = "comma" if token == "," else "operator"
            self._conditional(at, token)
        elif token == "=":
            if not (self._argument and self._open and self._open[-1][2]):
                self._add(at, "'=' has no meaning here; did you mean '=='?")
        elif token not in _SIGNS:
            self._add(at, _REFUSED.get(token) or f"{shown(token)} has no place in a formula")
            self._before = "any"

    def _conditional(self, at: int, token: str) -> None:
        """Pair 'if' and 'else'."""
        if token == "if":
            self._ifs.append(at)
        elif token == "else" and self._ifs:
            self._ifs.pop()
        elif token == "else":
            self._add(at, "'else' without 'if'; a choice is written: a if condition else b")

    def _bracket(self, at: int, token: str) -> bool:
        if token in _CLOSING:
            called = self._before == "operand"
            if called and token != "[" and not self._token.isidentifier():
                self._add(at, "an operator is missing before '('; did you mean '*('?")
            self._open.append((token, at, called))
            self._before = "open"
            if len(self._open) > MAX_BRACKETS:
                self._add(at, f"brackets are nested deeper than {MAX_BRACKETS} levels; use 'let'")
                return False
            return True
        if not self._open or _CLOSING[self._open[-1][0]] != token:
            self._add(at, f"{token!r} closes no bracket")
            return False
        self._missing_before(at, token)
        self._open.pop()
        self._before = "operand"
        return True

    def _end(self) -> None:
        if self._before == "start":
            self._add(0, "the formula is empty")
        self._missing_before(len(self._text.rstrip()), "the end")
        for at in self._ifs:
            self._add(at, "'if' without 'else'; a choice is written: a if condition else b")
        for bracket, at, _ in self._open:
            self._add(at, f"{bracket!r} is never closed")

    def _missing_before(self, at: int, what: str) -> None:
        if self._before == "operator":
            self._add(at, f"an operand is missing between {shown(self._token)} and {what}")

    def _name(self, at: int, word: str) -> bool:
        """Whether a word is a name."""
        if len(word) > MAX_NAME:
            self._add(at, f"a name has at most {MAX_NAME} characters")
            return False
        for place, char in enumerate(word):
            if not ("_" + char).isidentifier():
                meant = f"; did you mean {_MEANT[ord(char)]!r}?" if ord(char) in _MEANT else ""
                self._add(at + place, f"the character {shown(char)} has no place in a formula{meant}")
                return False
        if not word.isidentifier():
            self._add(at, f"{shown(word)} is not a name")
        return word.isidentifier()

    def _number(self, at: int, digits: str, suffix: str) -> None:
        if suffix in ("j", "J"):
            self._add(at, f"{shown(digits + suffix)} is a complex number; formulas are real")
        elif suffix:
            product = shown(f"{digits}*{suffix}")
            self._add(at, f"{shown(digits + suffix)} is not a number; for a product write {product}")
        elif re.search("__|_$|_[.eE]|[.]_", digits):
            self._add(at, f"{shown(digits)} is not a number: '_' stands between digits")
        elif re.match("0_?[0-9]", digits) and digits.isdigit():
            self._add(at, f"{shown(digits)} is not a number: it starts with 0")
        elif not _readable(digits):
            self._add(at, f"{shown(digits)} is larger, or nearer to 0, than every floating-point number")


def _readable(digits: str) -> bool:
    exponent = _EXPONENT.search(digits)
    if len(digits) > MAX_DIGITS or (exponent and len(exponent[2]) > 4):
        return False
    return in_range(Fraction(digits.replace("_", "")))


def in_range(value: Fraction) -> bool:
    """Whether some floating-point format has finite numbers about ``value``, and not only 0."""
    return value == 0 or _SMALLEST < abs(value) < _LARGEST
