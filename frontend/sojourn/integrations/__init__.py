# SPDX-License-Identifier: Apache-2.0
"""Training frameworks on an owner's device. Each module needs its framework installed and is imported by name:

- `sojourn.integrations.lightning`: `Trainer(accelerator=OwnerAccelerator(owner))`, and `Fabric` likewise
- `sojourn.integrations.accelerate`: `use(owner)` before `accelerate.Accelerator()` or `transformers.Trainer`
"""
