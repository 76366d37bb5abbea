// SPDX-License-Identifier: Apache-2.0
// The program format: a core-form module to bytes and back. Torch-free; the schema is Program.fbs.
#ifndef SOJOURN_RUNTIME_PROGRAM_H
#define SOJOURN_RUNTIME_PROGRAM_H
#include "runtime/Error.h"
#include "runtime/Hash.h"
#include "runtime/Version.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <cstdint>
#include <string>

namespace sojourn::runtime {

/// `program` is what runs and what is hashed; `debug` holds locations and hints, never hashed.
struct EncodedProgram {
  std::string program;
  std::string debug;
  ProgramHash hash;
};

/// BLAKE2b-256 of a module's text without locations, hashed as it is printed: equal modules have equal ones in every
/// process of one release.
ProgramHash hashModule(mlir::ModuleOp module);

/// Encodes a verified core-form module. Equal modules give equal bytes, whatever their locations.
llvm::Expected<EncodedProgram> encodeProgram(mlir::ModuleOp coreModule);

/// Turns bytes of unknown origin into a verified core-form module. Trust is earned in order: size,
/// FlatBuffers verifier, version, limits, own walk of every id, range, type and count, MLIR
/// verifier, core-form verifier. `debug` may be empty. Failures are ProgramError.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> decodeProgram(mlir::MLIRContext &context, llvm::StringRef program,
                                                                llvm::StringRef debug);

/// Arguments, results, bytes and a histogram of ops, for people.
std::string describeProgram(mlir::ModuleOp module);

/// The module as text, one line per op with its place in the source. Work and text are bounded: what
/// exceeds `limit` bytes is cut, and "..." stands at the end. `noteOf`: more about an op, behind its place.
std::string printProgram(mlir::ModuleOp module, size_t limit,
                         llvm::function_ref<std::string(mlir::Operation *)> noteOf = nullptr);

/// "train.py:12:3 (called from train.py:30:5)", or "" where nothing is known. One line of at most
/// limits::kLocationTextBytes; a longer one ends in "...".
std::string describeLocation(mlir::Location location);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_PROGRAM_H
