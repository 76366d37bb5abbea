// SPDX-License-Identifier: Apache-2.0
// The executor of this process as an engine (see Engine.h).
#include "runtime/Execute.h"
#include "runtime/Library.h"
#include "runtime/Lower.h"
#include <algorithm>

namespace sojourn::runtime {

namespace {

class CpuCode : public Code {
public:
  CpuCode(const Engine &engine, std::unique_ptr<Executable> executable)
      : Code(engine), executable(std::move(executable)) {}
  llvm::ArrayRef<ArgSpec> args() const override { return executable->args(); }
  llvm::ArrayRef<ResultSpec> results() const override { return executable->results(); }
  RunMemory runMemory() const override { return executable->runMemory(); }
  llvm::ArrayRef<LibraryCalls> libraryCalls() const override { return executable->libraryCalls(); }
  size_t bytes() const override { return executable->planBytes(); }
  llvm::Expected<std::vector<HostTensor>> run(llvm::ArrayRef<Binding> arguments,
                                              const RunOptions &options) const override {
    return executable->run(arguments, options);
  }

private:
  std::unique_ptr<Executable> executable;
};

class CpuEngine : public Engine {
public:
  llvm::StringRef name() const override { return "cpu"; }
  bool hasKernel(llvm::StringRef op) const override { return kernelTable().contains(op); }
  unsigned threads() const override { return std::max(1u, libraryThreads()); }
  std::string lacks(EngineTrait trait) const override {
    switch (trait) { // without a default: a new trait is claimed only where it was considered
    case EngineTrait::roundsFloats:
      return libraryKeepsFloat32()
                 ? ""
                 : "this process multiplies float32 matrices with less precision than float32 has; set "
                   "torch.set_float32_matmul_precision(\"highest\") at the owner";
    case EngineTrait::choosesByShape:
    case EngineTrait::keepsSlotsApart:
    case EngineTrait::addsIntegersExactly:
    case EngineTrait::ignoresThreads: return "";
    }
    return "the engine does not know this trait";
  }

private:
  llvm::Expected<std::unique_ptr<Code>> make(mlir::ModuleOp coreModule) const override {
    auto executable = Executable::create(coreModule);
    if (!executable) {
      return executable.takeError();
    }
    return std::make_unique<CpuCode>(*this, std::move(*executable));
  }
};

} // namespace

const Engine &cpuEngine() {
  static const CpuEngine engine;
  return engine;
}

} // namespace sojourn::runtime
