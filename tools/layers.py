# SPDX-License-Identifier: Apache-2.0
"""Allowed includes in C++, and a check for circles of units; for tools/lint.

A place is a folder, or a unit (X.h and X.cpp) with a separate row. LAYERS lists the places that each place may include
in addition to itself, without exceptions. CIRCLES lists today's circles, with reasons: it may only shrink, and an entry
that is no longer needed must be removed.
"""

import pathlib
import re
from collections.abc import Iterator

# From below to above: place -> places and outside libraries. A place without a row is refused.
LAYERS = {
    "dialect/elements": "",
    "dialect/Part": "",
    "dialect/Signature": "",
    "dialect/rows/Rules": "mlir",  # declarations, which records of ops name
    "dialect/rows/Fact": "mlir",
    "dialect/Parties": "dialect dialect/rows/Fact mlir",
    "dialect": "dialect/Part dialect/Signature dialect/elements dialect/rows/Rules mlir",
    "dialect/rows": "dialect dialect/rows/Fact dialect/rows/Rules mlir",
    "passes/Lowered": "",
    "passes/Aten": "dialect dialect/elements mlir",
    "passes/decompose": "passes/Aten dialect mlir",
    "passes/DependenceSummary": "llvm",
    "passes/PriceLimits": "",
    "passes": "passes/DependenceSummary passes/PriceLimits dialect/Signature passes/Aten passes/Lowered passes/decompose dialect dialect/elements dialect/rows mlir",
    "passes/parties": "passes dialect dialect/rows dialect/rows/Fact mlir",
    "passes/privacy/MetricShare": "",
    "passes/privacy": "passes/privacy/MetricShare dialect/Signature passes dialect dialect/rows mlir",
    # Links neither torch nor MLIR (of LLVM only Support): runtime/facts/CMakeLists.txt.
    "runtime/facts": "passes/DependenceSummary dialect dialect/Part dialect/Signature dialect/elements runtime "
    "runtime/privacy runtime/terms/StepTerms llvm",
    "runtime": "runtime/facts dialect/Signature dialect dialect/Part dialect/elements mlir torch",  # torch: the library adapter alone, see tools/lint
    "runtime/parties": "runtime passes/parties dialect mlir",
    "runtime/wire": "runtime dialect dialect/elements",
    "runtime/stream": "runtime/signing nng",
    "runtime/privacy": "",
    "runtime/signing": "runtime/privacy",
    "runtime/terms/Defaults": "",
    "runtime/terms/StepTerms": "runtime/terms/Defaults runtime/privacy runtime/wire passes/privacy/MetricShare",
    "runtime/terms": "runtime/terms/Defaults runtime/terms/StepTerms runtime/privacy runtime/wire passes/privacy mlir",
    "owner/ledger": "runtime runtime/privacy runtime/signing",
    "owner/Patience": "",
    "owner/Peer": "",
    "owner/RequestError": "owner runtime runtime/wire llvm",
    "owner/Dataset": "owner runtime runtime/terms/Defaults runtime/wire llvm",
    "owner/worker/Port": "owner/Patience runtime llvm",
    # What a front and its worker processes send each other.
    "owner/process/Link": "owner/worker/Port runtime llvm",
    "owner/MappedFile": "",
    # The program of worker processes.
    "owner/process/Confine": "llvm",
    "owner/process/Warm": "owner/worker dialect runtime mlir",
    "owner/process/WorkerMain": "owner/Dataset owner/MappedFile owner/RequestError owner/process/Confine owner/process/Link "
    "owner/process/Warm owner/process owner/worker owner/worker/Port runtime runtime/wire llvm",
    # Their front.
    "owner/process": "owner/Dataset owner/Patience owner/RequestError owner/process/Link owner/worker/Port owner runtime runtime/wire llvm",
    # The side of an owner that has the code of programs.
    "owner/worker": "owner/Dataset owner/RequestError owner/worker/Port dialect dialect/Signature dialect/rows passes "
    "passes/DependenceSummary passes/PriceLimits passes/parties passes/privacy runtime runtime/facts runtime/parties "
    "runtime/privacy runtime/terms "
    "runtime/terms/StepTerms runtime/wire mlir",
    # Members of a group of owners.
    "owner/peers": "dialect owner/Peer owner/RequestError owner/worker/Port runtime runtime/signing runtime/wire llvm",
    # Connections of a served owner with other ones.
    "owner/links": "owner owner/RequestError owner/peers runtime runtime/signing runtime/stream runtime/wire llvm nng",
    "owner": "dialect/Part dialect/Signature owner/Dataset owner/MappedFile owner/Patience owner/Peer owner/RequestError owner/ledger owner/links owner/peers owner/process owner/worker/Port runtime runtime/facts runtime/privacy "
    "runtime/signing runtime/stream runtime/terms/Defaults runtime/terms/StepTerms runtime/wire "
    "passes/DependenceSummary passes/PriceLimits dialect llvm nng",
    # The recorder knows torch and the importer knows MLIR: they meet at the trace, which knows neither.
    "frontend": "runtime/wire torch",  # errors, checks
    "frontend/shapes": "dialect/elements runtime torch",
    "frontend/recording/Trace": "dialect dialect/elements runtime/wire",
    "frontend/recording/TraceWalk": "frontend/recording/Trace",
    "frontend/recording/Origin": "frontend/recording/Trace torch",
    "frontend/wire": "frontend frontend/recording/Trace runtime runtime/terms/Defaults runtime/signing runtime/stream runtime/wire dialect nng",
    "frontend/tables/TableRecords": "frontend/wire frontend/recording/Trace runtime/wire",
    "frontend/compile": "dialect/Signature dialect/elements frontend frontend/wire frontend/recording/Trace frontend/recording/TraceWalk "
    "frontend/recording/Origin passes passes/parties passes/privacy runtime runtime/privacy runtime/terms runtime/terms/Defaults dialect mlir",
    # Knows nothing of sessions: it asks for values through StepSender, which frontend/flight implements.
    "frontend/recording": "dialect/Signature frontend frontend/shapes frontend/recording/Trace frontend/recording/TraceWalk "
    "frontend/recording/Origin frontend/tables/TableRecords passes/Lowered runtime runtime/wire torch",
    "frontend/session": "frontend frontend/wire frontend/compile frontend/recording frontend/recording/Trace runtime "
    "runtime/signing runtime/wire torch",
    # Open traces on their way to their owners.
    "frontend/flight": "frontend frontend/compile frontend/recording frontend/recording/Origin frontend/recording/TraceWalk "
    "frontend/session torch",
    "frontend/tables": "dialect/Part frontend frontend/tables/TableRecords frontend/wire frontend/compile frontend/recording "
    "frontend/session runtime runtime/privacy runtime/terms/Defaults runtime/wire torch",
    "frontend/Sojourn": "frontend frontend/wire frontend/flight frontend/recording frontend/session frontend/tables runtime/privacy "
    "runtime/signing runtime/wire torch",
    "frontend/Scope": "frontend/Sojourn torch",
    "frontend/replay": "dialect/Signature frontend frontend/Sojourn frontend/flight frontend/recording frontend/recording/Origin "
    "frontend/recording/TraceWalk frontend/session torch",
    "frontend/ahead": "frontend frontend/Sojourn frontend/compile frontend/flight frontend/recording frontend/recording/Origin "
    "frontend/session frontend/tables runtime runtime/privacy runtime/wire torch",
    # The owner in this process: the one place of a client that knows an owner.
    "frontend/local": "frontend/Sojourn frontend/recording owner owner/Dataset owner/worker runtime torch",
    "frontend/bind": "frontend frontend/Sojourn frontend/shapes frontend/flight frontend/recording frontend/recording/Origin frontend/recording/Trace frontend/session "
    "frontend/tables frontend/replay frontend/ahead frontend/local runtime/privacy runtime/signing runtime/terms runtime/wire torch",
}
# Above all of them, whose rule is only that nothing below includes them.
ABOVE = ("examples", "test", "tools")
OUTSIDE = {"ATen": "torch", "c10": "torch", "torch": "torch", "mlir": "mlir", "llvm": "llvm", "nng": "nng"}
# Places whose files reach none of these headers, over all headers that they include.
_HEAVY = ("mlir/", "ATen/", "c10/", "torch/")
FREE = dict.fromkeys(
    (
        "owner",
        "owner/Dataset",
        "owner/MappedFile",
        "owner/RequestError",
        "owner/ledger",
        "owner/links",
        "owner/peers",
        "owner/process",
        "owner/process/Link",
        "owner/worker/Port",
        "runtime/facts",
    ),
    _HEAVY,
)

# Units that include each other in a circle: why. One that grows is refused.
CIRCLES = {
    "dialect/Base dialect/Cost dialect/Support": "Base.h is every header that the records of ops need",
    "dialect/rows/Analysis dialect/rows/Support": "the state of an analysis, and the code that its rules share",
    "owner/ledger/Ledger owner/ledger/Transaction": "a class and its private part",
    "passes/SlotReading passes/SlotRules": "a reader, and the rules that only the reader uses",
    "passes/decompose/MakeOp passes/decompose/Term": "terms, and the template that builds their ops",
    "passes/privacy/Middle passes/privacy/Polynomial": "both follow the same values",
    "runtime/Library runtime/LibraryTensor": "the library adapter, with and without torch's headers",
    "runtime/privacy/DiscreteGaussian runtime/privacy/GaussianTable": "a sampler and its table share their limits",
}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def includes(path):
    """Each include of a file with its line."""
    text = path.read_text(errors="replace")
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def place_of(name):
    """The place of a file, by its path from the root: the row of its unit, else its folder."""
    unit, folder = str(pathlib.PurePosixPath(name).with_suffix("")), str(pathlib.PurePosixPath(name).parent)
    return unit if unit in LAYERS else folder


def _sources(files, root):
    for path in files:
        if path.suffix in {".cpp", ".h"}:
            yield path, path.relative_to(root).as_posix()


def _check_free(sources):
    """Files of FREE's places reach none of its headers; the first way there is shown."""
    headers = {name: [header for _, header in includes(path)] for path, name in sources}
    for name in headers:
        ways, seen = [[name]], {name}
        for way in ways:
            for header in headers.get(way[-1], ()):
                if header.startswith(FREE.get(place_of(name), ())):
                    yield f"{name}:1 reaches {header}: {' -> '.join([*way[1:], header])} (FREE in tools/layers.py)"
                    ways = []
                    break
                if header not in seen:
                    seen.add(header)
                    ways.append([*way, header])
            if not ways:
                break


def check_layers(files, root):
    """LAYERS allows every include."""
    sources = [(path, name) for path, name in _sources(files, root) if name.split("/")[0] not in ABOVE]
    ours = {row.split("/")[0] for row in LAYERS} | set(ABOVE)
    for path, name in sources:
        place = place_of(name)
        if place not in LAYERS:
            yield f"{name}:1 lies in {place}, which has no row in tools/layers.py: add one with its allowed includes"
            continue
        allowed = LAYERS[place].split()
        for line, header in includes(path):
            first = header.split("/")[0]
            if "/" not in header or (first not in ours and first not in OUTSIDE):
                continue
            target = place_of(header) if first in ours else OUTSIDE[first]
            if target == place or target in allowed or (target == "llvm" and "mlir" in allowed):
                continue
            beside = f"{place} may include itself and {', '.join(allowed) or 'nothing else'}"
            yield f"{name}:{line} includes {header}: {beside} (tools/layers.py)"
    yield from _check_free(sources)


def circles(edges):
    """Strongly connected sets of more than one unit (Tarjan's algorithm, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    inside: set[str] = set()
    found: list[set[str]] = []
    for root in sorted(edges):
        work: list[tuple[str, Iterator[str] | None]] = [] if root in index else [(root, None)]
        while work:
            node, rest = work.pop()
            if rest is None:
                index[node] = low[node] = len(index)
                stack.append(node)
                inside.add(node)
                rest = iter(sorted(edges[node]))
            for other in rest:
                if other not in index:
                    work += [(node, rest), (other, None)]
                    break
                if other in inside:
                    low[node] = min(low[node], low[other])
            else:
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    members, stack[cut:] = set(stack[cut:]), []
                    inside -= members
                    if len(members) > 1:
                        found.append(members)
    return found


def way_round(members, edges):
    """The units of a shortest circle through the first unit."""
    first = min(members)
    ways = [[first]]
    seen = set()
    for way in ways:
        for other in sorted(edges[way[-1]] & members):
            if other == first:
                return [*way, first]
            if other not in seen:
                seen.add(other)
                ways.append([*way, other])
    return [first]


def check_circles(files, root):
    """No unit includes itself through others, except those of CIRCLES, which must not grow."""
    edges: dict[str, set[str]] = {}
    lines: dict[tuple[str, str], str] = {}
    sources = list(_sources(files, root))
    for _, name in sources:
        edges[name.rpartition(".")[0]] = set()
    for path, name in sources:
        unit = name.rpartition(".")[0]
        for line, header in includes(path):
            other = header.rpartition(".")[0]
            if other in edges and other != unit:
                edges[unit].add(other)
                lines.setdefault((unit, other), f"{name}:{line}")
    known = [set(units.split()) for units in CIRCLES]
    found = circles(edges)
    for members in sorted(found, key=sorted):
        if members in known:
            continue
        more = [sorted(members - circle) for circle in known if circle < members]
        way = way_round(members, edges)
        grown = f"; a known circle grows by {', '.join(more[0])}" if more else ""
        shrunk = any(members < circle for circle in known)
        if not shrunk:
            yield f"{lines[way[0], way[1]]} closes a circle of {len(members)} units: {' -> '.join(way)}{grown}"
    for circle in known:
        if circle <= edges.keys() and circle not in found and not any(circle < members for members in found):
            left = [sorted(members) for members in found if members < circle]
            what = " and ".join(", ".join(members) for members in left) or "gone"
            yield f"the circle of {min(circle)} is now {what}: update CIRCLES of tools/layers.py"
