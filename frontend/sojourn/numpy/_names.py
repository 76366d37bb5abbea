# SPDX-License-Identifier: Apache-2.0
"""Names of NumPy's that are its own objects here, and names that are left out."""

from __future__ import annotations

#: Dtypes, scalar types, constants, error states and texts: the namespace has NumPy's own.
NUMPYS = frozenset(
    """
    bool bool_ byte cdouble clongdouble complex128 complex64 complexfloating csingle double dtype exceptions dtypes
    False_ True_ float16 float32 float64 floating generic half inexact int16 int32 int64 int8 int_ intc integer intp
    long longdouble longlong number short signedinteger single ubyte uint uint16 uint32 uint64 uint8 uintc uintp ulong
    ulonglong unsignedinteger ushort ScalarType sctypeDict typecodes float128 complex256
    e euler_gamma inf nan newaxis pi little_endian
    errstate seterr geterr seterrcall geterrcall getbufsize setbufsize
    issubdtype mintypecode typename __version__ __array_api_version__ index_exp s_ broadcast_shapes einsum_path
    base_repr binary_repr format_float_positional format_float_scientific get_printoptions set_printoptions printoptions
    """.split()
)

_FILES = "files and text: read with NumPy, then `np.asarray`; write `numpy.asarray(x)`"
_TEXTS = "texts of arrays: `numpy.asarray(x)` reads the values"
_DATES = "dates: owners hold numbers"
_RECORDS = "strings, records, masks and matrices: owners hold numbers in arrays"
_OBJECTS = "Python objects and functions element by element"
_ABOUT = "NumPy's installation and its parts"

LEFT_OUT: dict[str, str] = {
    name: reason
    for reason, listed in {
        _FILES: "fromfile fromregex fromstring genfromtxt load loadtxt memmap save savetxt savez savez_compressed",
        _TEXTS: "array2string array_repr array_str",
        _DATES: "busday_count busday_offset busdaycalendar datetime64 datetime_as_string datetime_data is_busday isnat "
        "timedelta64",
        _RECORDS: "asmatrix bmat bytes_ char character flexible ma matrix rec recarray record str_ strings void",
        _OBJECTS: "broadcast flatiter frompyfunc nditer nested_iters object_",
        _ABOUT: "core ctypeslib emath f2py get_include info lib polynomial show_config show_runtime test testing typing",
    }.items()
    for name in listed.split()
}
