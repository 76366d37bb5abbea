# SPDX-License-Identifier: Apache-2.0
"""Hand-written programs in the one form that the native owner reads; the NumPy owner reads others, too."""


def canonical(p):
    """The one encoding that the native owner reads: strings by first use, sizes type by type."""
    strings = []

    def intern(index):
        if not 0 <= index < len(p.strings):
            return index  # a hostile one stays so
        text = p.strings[index]
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    p.tables[:] = [(rows, [intern(name) for name in names], *rest) for rows, names, *rest in p.tables]
    attrs = list(p.attrs)
    ints = list(p.ints)
    for at, (name, *operands, attr_begin, attr_count) in enumerate(p.ops):
        p.ops[at] = (intern(name), *operands, attr_begin, attr_count)
        for index in range(attr_begin, attr_begin + attr_count):
            key, begin, count, kind, *rest = attrs[index]
            attrs[index] = (intern(key), begin, count, kind, *rest)
            if kind in (5, 6):
                ints[begin : begin + count] = [intern(text) for text in ints[begin : begin + count]]
    p.attrs[:], p.ints[:], p.strings[:] = attrs, ints, strings
    dims, types = [], []
    for element, rank, reserved, begin in p.types:
        types.append((element, rank, reserved, len(dims)))
        dims.extend(p.dims[begin : begin + rank])
    p.types[:], p.dims[:] = types, dims
    return p
