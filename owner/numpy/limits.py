# SPDX-License-Identifier: Apache-2.0
"""Every bound of this owner, in one place. A request that exceeds one gets ErrorCode.Limit.

Versions and the bounds of types are the format's (dialect/Bounds.h): sojourn_wire.format has them.
"""

from sojourn_wire import format as wire_format

# One message.
REQUEST_BYTES_MAX = 1 << 30
STRING_BYTES_MAX = 1 << 16
TABLES_MAX = 1 << 16  # FlatBuffers tables in one buffer
BINDINGS_MAX = 1 << 16  # states, uploads, slots, seeds, tables, results, releases: each

# One program.
OPS_MAX = 1 << 18
ARGS_MAX = 1 << 16
RESULTS_MAX = 1 << 16
TYPES_MAX = 1 << 18
OPERANDS_MAX = 1 << 21  # with attribute values, over all ops
ATTR_INTS_MAX = 1 << 21
OPERANDS_PER_OP_MAX = 1 << 14
VALUE_BYTES_MAX = min(1 << 30, wire_format.VALUE_BYTES_MAX)
LIVE_BYTES_MAX = 1 << 32  # arguments and values alive at one op
WORK_MAX = 1 << 41  # scalar multiply-adds and moves in one step, as verify.py counts them
CALL_WORK = 10_000  # what one NumPy call costs, in those units
SPLITS_MAX = 64  # of splits, in the part that a draw of rows names
WINDOW_TAPS_MAX = 1 << 16  # positions of a convolution's or pool's window
LOCATION_DEPTH_MAX = 16

PARTS_PER_TABLE_MAX = 256  # that rows are drawn of

# One owner.
SESSIONS_MAX = 1 << 10
SESSION_LEASE_SECONDS = 24 * 3600
HANDLES_MAX = 1 << 18  # per session
HANDLE_BYTES_MAX = 1 << 33  # per session
UPLOADS_MAX = HANDLES_MAX  # under way, per session
REMEMBERED_REPLY_BYTES_MAX = 1 << 20  # of the last step, for its repetition
VALUE_ROOM = 256  # of a reply, for the description of a value
STEPS_PER_MESSAGE_MAX = 4096
PLANS_MAX = 1 << 10
PLAN_BYTES_MAX = 1 << 28  # encoded bytes of the cached programs
PUBLISHED_BYTES_MAX = 1 << 30
PROGRAM_TEXT_MAX = 1 << 22  # characters of one program as text
REPLY_TEXT_MAX = 1 << 26  # and of all in one reply
DATASET_NAME_MAX = 256
DATASET_COLUMNS_MAX = 1 << 14
DATASET_BYTES_MAX = 1 << 40

TEXT = f"at most {OPS_MAX} ops, {VALUE_BYTES_MAX} bytes per value, {REQUEST_BYTES_MAX} bytes per request"
