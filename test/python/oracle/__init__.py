# SPDX-License-Identifier: Apache-2.0
"""Replays a module of any phase on eager torch, op by op; shares nothing with the product."""
