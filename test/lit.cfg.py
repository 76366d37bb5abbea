# SPDX-License-Identifier: Apache-2.0
# lit settings for every .mlir test. `--param roundtrip=1` sends each input of sojourn-opt through
# text and bytecode first.
import os
import shutil

import lit.formats

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
binaries = os.path.join(root, "build/bin")
llvm = "/usr/lib/llvm-22/bin"

config.name = "sojourn"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "golden"]
config.test_source_root = os.path.join(root, "test")
config.test_exec_root = os.path.join(root, "build/test")
config.environment["PATH"] = os.pathsep.join(
    [binaries, llvm, os.path.join(root, ".venv/bin"), config.environment.get("PATH", "")]
)
config.environment.pop("SOJOURN_DUMP", None)

for tool in ("FileCheck", "not"):
    if not shutil.which(tool, path=config.environment["PATH"]):
        lit_config.fatal(f"{tool} is not in {llvm}; run tools/setup")

opt = os.path.join(binaries, "sojourn-opt")
if lit_config.params.get("roundtrip"):
    config.name += "-roundtrip"
    opt += " --verify-roundtrip"
# Whole words that are not part of a path or of another name.
config.substitutions.append((r"(?<![\w/.-])sojourn-opt(?![\w.-])", opt))
