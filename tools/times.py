# SPDX-License-Identifier: Apache-2.0
"""The check of tools/lint that the time of oblivious kernels (runtime/KernelTimes.def) does not depend on values.

The rule is about text, file by file of those in FILES. A unit is a function or a class. Units that only kernels of
covered ops name, directly or through others, are left out; units that no kernel is seen to name are checked.

Values, within a function, are
- what stands behind a pointer, or in an array of elements: `x[i]`, `*x`, `x->a`, a call that takes a pointer;
- parameters of an element's type (ELEMENTS), and all of a step's `run` in the Vector files;
- variables that are assigned an expression with a value.

A problem is
- a condition of `if`, `while`, `for` or `switch` with a value: early exits of loops have one;
- `&&` and `||` with a value, of which the second side may be skipped: `&` and `|` compute both;
- a subscript, a pointer or an operand of memcpy and its like that is made with a value;
- a search or sort of std over elements.
A comment `// time: why` in the same line, or alone above it, says that what looks like a value follows from shapes; at
an assignment it says so of the variable. One that nothing asks for is a problem as well. Conditional expressions pass:
compilers turn most into selections.
"""

import fnmatch
import re

FILES = [
    *(
        "Kernels*.cpp",
        "Vector*.cpp",
        "Vector*.h",
        "Library*.cpp",
        "Elements.h",
        "FrameBands.*",
        "PoolWindows.h",
        "SlidingWindows.h",
    ),
    *("StridedLoad.cpp", "Philox.h", "Chain.cpp"),
]
ELEMENTS = (
    r"(?:T|A|F|V|R|Cell|Tap|Real|Vector|Wide|Half|Brain|Bool|(?:Largest|Entry|Extremes)<[^;()]*?>|std::complex<\w+>)"
)
NUMBERS = r"(?:float|double|u?int(?:8|16|32|64)_t|char|void|Complex|Number)"
POINTER = re.compile(rf"\b(?:{ELEMENTS}|{NUMBERS})\s*(?:const\s*)?\*\s*(?:__restrict\s+|const\s+)*(\w+)")
MORE_POINTERS = re.compile(r",\s*\*\s*(\w+)\s*(?==|;)")
ARRAY = re.compile(rf"\b(?:{ELEMENTS}|float|double)\s+((?:\w+(?:\[[^\]]*\])+(?:,\s*)?)+)")
PARAMETER = re.compile(rf"\b{ELEMENTS}\s+&?(\w+)\s*(?=[,)])")
NUMBER_PARAMETER = re.compile(r"\b(?:float|double)\s+(\w+)\s*(?=[,)])")
ANY_PARAMETER = re.compile(r"(\w+)\s*(?=[,)])")
ASSIGNMENT = re.compile(r"(?<![\w.)\]])(\w+)(?:\.\w+)*(?:\[[^=]*\])?\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)\s*(.*)", re.DOTALL)
MEMBER = re.compile(rf"\b(?:{ELEMENTS}|{NUMBERS})\s*(?:const\s*)?\*(\w+)(?=;|, \*)|(?<=, )\*(\w+)(?=;)")
CONDITION = re.compile(r"\b(if|while|for|switch)\s*(?=\()")
MOVES = re.compile(r"\b(?:std::)?(?:memcpy|memset|memmove|copy_n|fill_n|copyWindow|__builtin_memcpy)\s*(?=\()")
SEARCHES = re.compile(
    r"\bstd::(?:ranges::)?(?:stable_sort|sort|partial_sort|nth_element|find\w*|all_of|any_of|none_of|lower_bound|"
    r"upper_bound|equal_range|binary_search|search|unique|partition|mismatch|equal|lexicographical_compare)\s*(?=\()"
)
CALL = re.compile(r"(\w+)\s*(?:<[^;(){}]*>)?\s*(?=\()")
REASON = re.compile(r"//\s*time: \S")


def without_comments(text):
    """The code with comments, strings, macros and their uses blanked; lines stay where they are."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    return re.sub(
        r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|"
        r"^[A-Z_]+\([^\n]*\)$",
        blank,
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


def closing(text, at):
    """The place behind the bracket that closes the one at `at`."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    opened, closed = text[at], pairs[text[at]]
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == opened) - (text[place] == closed)
        if depth == 0:
            return place + 1
    return len(text)


def parts_of(text, separator=","):
    """The text cut at separators outside of brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == separator and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]


class Function:
    """A function and its unit: the function itself, or the class that it is in."""

    def __init__(self, path, unit, head, body, line, is_local):
        self.path, self.unit, self.head, self.body, self.line = path, unit, head, body, line
        self.is_local = is_local  # to its file
        # With parameters that are elements, whatever their type.
        self.is_step = bool(re.search(r"\bstatic\b[^(]*\brun\s*\($", head[: head.find("(") + 1]))

    def line_of(self, place):
        """Of a place in the body."""
        return self.line + (self.head + self.body[:place]).count("\n")


def name_before(head):
    """The name of the function whose head this is; None if it is no function's."""
    plain = re.sub(r"\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)", "", head)
    place = re.search(r"\b(?!operator\b)(~?\w+)\s*(?:<[^<>]*>)?\s*\(", plain)
    return place[1] if place and place[1] not in {"if", "for", "while", "switch", "return"} else None


def functions_of(path, text):
    """All functions of a file, whatever namespaces and classes they are in."""
    code = without_comments(text)
    found = []

    def walk(begin, end, unit, is_local):
        place = head_begin = begin
        while place < end:
            letter = code[place]
            if letter == "(":
                place = closing(code, place)
                continue
            if letter in ";}":
                head_begin = place + 1
            if letter == "{":
                past = min(closing(code, place), end)
                head = code[head_begin:place]
                kind = re.search(r"\b(namespace|struct|class|union|enum)\b(?:\s+class)?\s*([\w:]*)", head)
                is_scope = kind and "(" not in re.sub(r"template\s*<.*?>\s*(?=struct|class)", "", head, flags=re.DOTALL)
                name = name_before(head)
                if kind and is_scope and kind[1] == "namespace":
                    walk(place + 1, past - 1, unit, is_local or (path.suffix == ".cpp" and not kind[2]))
                elif kind and is_scope and kind[1] != "enum":
                    walk(place + 1, past - 1, unit or kind[2], is_local)
                elif name:
                    line = code.count("\n", 0, head_begin + len(head) - len(head.lstrip())) + 1
                    found.append(Function(path, unit or name, head.lstrip(), code[place:past], line, is_local))
                else:  # a constant's initializer, or a member's within a constructor's head
                    place = past
                    continue
                place = head_begin = past
                continue
            place += 1

    walk(0, len(code), None, False)
    return found


class Values:
    """Which expressions of a function hold values. `members`: pointers in classes; `given`: lines with a reason."""

    def __init__(self, function, members, given):
        self.function, self.members, self.given = function, members, given
        text = function.head + function.body
        is_vector = function.path.name.startswith("Vector")
        self.pointers = set(POINTER.findall(text)) | set(MORE_POINTERS.findall(text))
        self.names = set(PARAMETER.findall(text))
        for arrays in ARRAY.findall(text):
            self.names |= set(re.findall(r"(\w+)\[", arrays))
        if is_vector:
            self.names |= set(NUMBER_PARAMETER.findall(text))
        if function.is_step and is_vector:
            self.names |= set(ANY_PARAMETER.findall(function.head))
        self.names -= self.pointers
        self.asked = set()
        self.scan(function.body)

    def scan(self, body):
        # Arguments of templates would be cut at their commas.
        body = re.sub(r"<[^<>;(){}]*>(?=\s*\()", lambda match: " " * len(match[0]), body)
        assignments = []
        for statement in re.finditer(r"[^;{}]+", body):
            begin = statement.start()
            for piece in parts_of(statement[0]):
                match = ASSIGNMENT.search(piece)
                if match and match[1] not in self.pointers:
                    assignments.append((match[1], match[2], self.function.line_of(begin + match.start(1))))
                begin += len(piece) + 1
        size = -1
        while size != len(self.names):
            size = len(self.names)
            for name, expression, line in assignments:
                if self.has(expression):
                    reasons = [each for each in (line, -line) if each in self.given]
                    self.asked.update(reasons)
                    if not reasons:
                        self.names.add(name)

    def names_in(self, expression):
        """Whether it names a value itself, not only the pointer to some."""
        words = re.findall(r"(?<![\w.>])([A-Za-z_]\w*)", expression)
        if any(word in self.names for word in words) or re.search(r"\(slots\)\s*\[", expression):
            return True
        if any(name in self.members for name in re.findall(r"(?:\.|->)(\w+)\s*\[", expression)):
            return True
        return any(
            re.search(rf"(?<![\w.]){name}\s*(?:\[|->)|(?:^|[^\w)\]\s.>]\s*|\breturn\s+)\*\s*{name}\b", expression)
            for name in set(words) & self.pointers
        )

    def has(self, expression):
        if self.names_in(expression):
            return True
        for call in CALL.finditer(expression):
            if not call[1].endswith("_cast") and call[1] not in {"if", "for", "while", "sizeof"}:
                arguments = expression[call.end() : closing(expression, call.end())]
                if self.pointers & set(re.findall(r"(?<![\w.>])[A-Za-z_]\w*", arguments)):
                    return True
        return False


def problems_of(function, values):
    """(line, what) for each place of a function where values decide."""
    body, line_of = function.body, function.line_of
    heads = []
    for match in CONDITION.finditer(body):
        past = closing(body, match.end())
        condition = body[match.end() + 1 : past - 1]
        heads.append((match.start(), past))
        if match[1] == "for":
            clauses = parts_of(condition, ";")
            condition = clauses[1] if len(clauses) == 3 else ""
        if values.has(condition):
            yield line_of(match.start()), f"'{match[1]}' depends on a value"
    for statement in re.finditer(r"[^;{}]+", body):
        for operator in re.finditer(r"\s(&&|\|\|)\s", statement[0]):
            place = statement.start() + operator.start(1)
            inside = any(begin <= place < past for begin, past in heads)
            sides = re.split(r"&&|\|\||\?|:|(?<![<>=!])=(?!=)|,", statement[0])
            if not inside and any(values.has(side) for side in sides):
                yield line_of(place), f"a value may skip what follows '{operator[1]}': use {operator[1][0]}"
                break
    for match in re.finditer(r"(?<=[\w\])])\[", body):
        if values.has(body[match.end() : closing(body, match.start()) - 1]):
            yield line_of(match.start()), "a value is a subscript"
    addresses = [
        (match.start(), argument)
        for match in MOVES.finditer(body)
        for argument in parts_of(body[match.end() + 1 : closing(body, match.end()) - 1])
    ]
    for match in re.finditer(r"\*\s*(?:const\s+|__restrict\s+)*(\w+)\s*\+?=(?!=)\s*([^;]*)", body):
        if match[1] in values.pointers:
            addresses.append((match.start(), parts_of(match[2])[0]))
    for place, address in addresses:
        if "+" in address and "[" not in address.split("+")[0] and values.names_in(address):
            yield line_of(place), "a value is an address"
    for match in SEARCHES.finditer(body):
        arguments = body[match.end() + 1 : closing(body, match.end()) - 1]
        if set(re.findall(r"(?<![\w.>])[A-Za-z_]\w*", arguments)) & (values.pointers | values.names):
            yield line_of(match.start()), f"{match[0].strip()} ends where values say"


def rows(text, macro):
    """The rows of an X-macro list, as lists of words."""
    return [[word.strip() for word in parts_of(row)] for row in re.findall(rf"^{macro}\((.*)\)", text, re.MULTILINE)]


def words_of(text):
    """The names in a text, but for those that a dispatch by step, type or instruction set lists."""
    text = re.sub(r"case EOp::\w+:\s*return [^;]*;|is_same_v<[^>]*>|\b(?:plain|avx2|avx512)::\w+", "", text)
    return set(re.findall(r"[A-Za-z_]\w*", text))


def roots_of(texts, steps, functions):
    """The names that the kernel of each op names first: {op: {(file or None, name)}}.

    `steps` and `functions`: the texts of Elementwise.def and SpecialFunctions.def.
    """
    special = {(None, name) for name, *_ in rows(functions, "SOJOURN_SPECIAL")}
    roots = {"special": special, "special_binary": set(special)} if special else {}
    ops = {}  # of each step
    for name, op, _, _, library, libm in rows(steps, "SOJOURN_ELEMENTWISE"):
        ops[name] = op
        roots.setdefault(op, {(None, "lowerElementwise")}).update((None, word) for word in words_of(library + libm))
    ops.update({name: "compare" for name, *_ in rows(steps, "SOJOURN_PREDICATE")})
    ops.update({name: name for name, *_ in rows(steps, "SOJOURN_MOVE")})
    for path, text in texts.items():
        code = re.sub(r"//[^\n]*", "", text)
        for op, what in re.findall(r"const LowerFn kernels::lower_(\w+)\s*=([^;]*);", code):
            roots.setdefault(op, set()).update((path, word) for word in words_of(what))
        for step, what in re.findall(r"case EOp::(\w+):\s*return ([^;]*);", code):
            if step in ops:
                roots.setdefault(ops[step], set()).update((path, word) for word in words_of(what))
    return roots


def users_of(functions, texts, roots):
    """Which ops reach a unit: {(file, unit): {op}}."""
    words: dict[tuple, set[str]] = {}
    common: dict[str, set] = {}  # units that other files can name
    for function in functions:
        key = (function.path, function.unit)
        words.setdefault(key, set()).update(words_of(function.head + function.body))
        if not function.is_local:
            common.setdefault(function.unit, set()).add(key)
    for path, text in texts.items():  # a macro, and functions that one makes
        for name, body in re.findall(r"^#define (SOJOURN_\w+)\(.*?\)((?:[^\n]*\\\n)*[^\n]*)", text, re.MULTILINE):
            words.setdefault((path, name), set()).update(words_of(body))
        for name, first, rest in re.findall(r"^(SOJOURN_\w+)\((\w+)(.*)\)$", text, re.MULTILINE):
            words.setdefault((path, first), set()).update({name, *words_of(rest)})
            common.setdefault(first, set()).add((path, first))

    def named(path, names):
        for name in names:
            yield from [(path, name)] if (path, name) in words else common.get(name, ())

    users: dict[tuple, set[str]] = {key: set() for key in words}
    for op, first in roots.items():
        todo: list[tuple] = []
        for path, name in first:
            todo += named(path, [name]) if path else [key for key in words if key[1] == name]
        while todo:
            key = todo.pop()
            if op not in users[key]:
                users[key].add(op)
                todo += named(key[0], words[key] - {key[1]})
    return users


def check(files, root):
    declared = root / "runtime/KernelTimes.def"
    if not declared.exists():
        return
    times = {op: time for op, time, *_ in rows(declared.read_text(), "SOJOURN_KERNEL_TIME")}
    paths = [
        path
        for path in sorted(files)
        if path.parent == root / "runtime" and any(fnmatch.fnmatch(path.name, pattern) for pattern in FILES)
    ]
    texts = {path: path.read_text(errors="replace") for path in paths}
    functions = [function for path, text in texts.items() for function in functions_of(path, text)]
    lists = [root / "runtime/Elementwise.def", root / "dialect/SpecialFunctions.def"]
    roots = roots_of(texts, *(path.read_text() if path.exists() else "" for path in lists))
    for op in times:
        if op not in roots:
            yield f"runtime/KernelTimes.def declares {op}, whose kernel is in no file that tools/times.py reads"
    users = users_of(functions, texts, roots)
    members = {name for text in texts.values() for pair in MEMBER.findall(without_comments(text)) for name in pair}
    for path, text in texts.items():
        yield from check_file(path, text, [each for each in functions if each.path == path], users, times, members)


def check_file(path, text, functions, users, times, members):
    lines = text.splitlines()
    # Lines that have a reason; with a minus, those below one that stands alone.
    given = {}
    for number, line in enumerate(lines, 1):
        if REASON.search(line):
            given[-(number + 1) if line.strip().startswith("//") else number] = number
    asked = set()
    for function in functions:
        ops = users[path, function.unit]
        oblivious = sorted(op for op in ops if times.get(op) == "oblivious")
        if ops and not oblivious:
            continue
        values = Values(function, members, given)
        asked |= values.asked
        for line, what in sorted(set(problems_of(function, values))):
            reasons = {line, -line} & given.keys()
            asked |= reasons
            if not reasons:
                yield (
                    f"runtime/{path.name}:{line} {what}, in the code of {oblivious[0] if oblivious else 'a kernel'}: "
                    "select, add a '// time:' comment if shapes decide, or declare the op covered (tools/times.py)"
                )
    for place, number in given.items():
        if place not in asked:
            yield f"runtime/{path.name}:{number} gives a reason for a time that nothing asks for: remove it"
