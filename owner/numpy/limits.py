# SPDX-License-Identifier: Apache-2.0
"""Every bound of this owner, in one place. What exceeds one is answered with ErrorCode.Limit."""

PROTOCOL_VERSION = 1
FORMAT_VERSION = 1
DIALECT_VERSION = 1

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
OPERANDS_MAX = 1 << 22
ATTR_INTS_MAX = 1 << 22
OPERANDS_PER_OP_MAX = 1 << 14
RANK_MAX = 16
DIM_MAX = 1 << 40
VALUE_BYTES_MAX = 1 << 31
LIVE_BYTES_MAX = 1 << 33  # arguments and values alive at one op
WORK_MAX = 1 << 45  # scalar multiply-adds and moves in one step
WINDOW_TAPS_MAX = 1 << 16  # positions of a convolution's or pool's window
LOCATION_DEPTH_MAX = 16

# One owner.
SESSIONS_MAX = 1 << 10
SESSION_LEASE_SECONDS = 24 * 3600
HANDLES_MAX = 1 << 18  # per session
HANDLE_BYTES_MAX = 1 << 34  # per session
PLANS_MAX = 1 << 10
PLAN_BYTES_MAX = 1 << 28  # encoded bytes of the cached programs
PUBLISHED_BYTES_MAX = 1 << 30
DATASET_NAME_MAX = 256
DATASET_COLUMNS_MAX = 1 << 14

TEXT = f"at most {OPS_MAX} ops, {VALUE_BYTES_MAX} bytes per value, {REQUEST_BYTES_MAX} bytes per request"
