// SPDX-License-Identifier: Apache-2.0
// sojourn-translate: MLIR text to program bytes and back, a description for people, and the replay
// of a dump. Links no torch.
#include "dialect/CoreForm.h"
#include "passes/Passes.h"
#include "runtime/Program.h"
#include "tools/Version.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

using namespace sojourn;
namespace fs = std::filesystem;

namespace {

constexpr int kFailed = 1;

/// What went wrong, for main to print.
struct Failure {
  std::string text;
};

std::string readFile(const std::string &path) {
  if (path == "-") {
    return {std::istreambuf_iterator<char>(std::cin), {}};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Failure{"cannot read " + path};
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void writeFile(const std::string &path, llvm::StringRef bytes) {
  if (path == "-") {
    llvm::outs() << bytes;
    return;
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    throw Failure{"cannot write " + path};
  }
}

class Session {
public:
  Session() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &path) {
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(readFile(path), path);
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
    mlir::SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());
    auto module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
    if (!module) {
      throw Failure{path + " is not a valid module"};
    }
    return module;
  }

  mlir::OwningOpRef<mlir::ModuleOp> decode(const std::string &path, const std::string &debugPath) {
    auto module = runtime::decodeProgram(context, readFile(path), debugPath.empty() ? "" : readFile(debugPath));
    if (!module) {
      throw Failure{path + ": " + llvm::toString(module.takeError())};
    }
    return std::move(*module);
  }

  runtime::EncodedProgram encode(mlir::ModuleOp module) {
    auto encoded = runtime::encodeProgram(module);
    if (!encoded) {
      throw Failure{llvm::toString(encoded.takeError())};
    }
    return std::move(*encoded);
  }

  static std::string print(mlir::ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream);
    return text;
  }

  mlir::MLIRContext context;
};

/// A debug table beside a program, as a dump leaves it.
std::string debugBeside(const std::string &program) {
  fs::path beside = fs::path(program).parent_path() / "debug.bin";
  return fs::path(program).filename() == "program.bin" && fs::exists(beside) ? beside.string() : "";
}

/// Runs the phases of one dumped program again and compares every file. True if nothing differs.
bool replayProgram(const fs::path &folder) {
  Session session;
  auto module = session.parse((folder / "00-captured.mlir").string());
  bool same = true;
  auto report = [&](const std::string &file, bool equal) {
    llvm::outs() << folder.string() << "/" << file << ": " << (equal ? "same" : "DIFFERS") << "\n";
    same = same && equal;
  };
  int index = 0;
  auto afterPhase = [&](llvm::StringRef phase, mlir::ModuleOp current) {
    std::string file = "0" + std::to_string(index++) + "-" + phase.str() + ".mlir";
    if (!fs::exists(folder / file)) {
      report(file + " (missing)", false);
      return;
    }
    // Compared as the parser reads it, so that the names of locations do not matter.
    auto dumped = session.parse((folder / file).string());
    report(file, Session::print(*dumped) == Session::print(current));
  };
  if (mlir::failed(runPhases(*module, "captured", "core", afterPhase))) {
    if (fs::exists(folder / "refusal.txt")) {
      llvm::outs() << folder.string() << ": refused, as in the dump\n";
      return same;
    }
    throw Failure{folder.string() + ": the phases fail now, but not in the dump"};
  }
  report("program.bin", session.encode(*module).program == readFile((folder / "program.bin").string()));
  return same;
}

int replay(const std::string &directory) {
  std::vector<fs::path> folders;
  if (fs::exists(fs::path(directory) / "00-captured.mlir")) {
    folders.push_back(directory);
  } else if (fs::is_directory(directory)) {
    for (const fs::directory_entry &entry : fs::directory_iterator(directory)) {
      if (fs::exists(entry.path() / "00-captured.mlir")) {
        folders.push_back(entry.path());
      }
    }
  }
  if (folders.empty()) {
    throw Failure{directory +
                  " holds no dump; expected 00-captured.mlir in it or in its folders "
                  "(run a program with SOJOURN_DUMP=" +
                  directory + ")"};
  }
  std::sort(folders.begin(), folders.end());
  bool same = true;
  for (const fs::path &folder : folders) {
    same = replayProgram(folder) && same;
  }
  return same ? 0 : kFailed;
}

} // namespace

int main(int argc, char **argv) {
  llvm::setBugReportMsg("sojourn-translate crashed. Please report this on the project's issue tracker and attach the "
                        "input and this trace.\n");
  CLI::App app{"Translates programs: MLIR text to bytes and back"};
  app.set_version_flag("--version", sojourn::versionText(), "print the versions of the release and of its formats");
  std::string input, output = "-", debug, dump;
  bool locations = false;
  app.add_option("--replay", dump, "repeat the phases of a dump (SOJOURN_DUMP) and compare every file");
  CLI::App *encode = app.add_subcommand("encode", "core-form MLIR text to program bytes");
  encode->add_option("input", input, "module, '-' for standard input")->required();
  encode->add_option("-o,--output", output, "program to write")->capture_default_str();
  encode->add_option("--debug", debug, "also write the table of source locations here");
  CLI::App *decode = app.add_subcommand("decode", "program bytes to MLIR text; verifies them as an owner does");
  decode->add_option("input", input, "program")->required();
  decode->add_option("-o,--output", output, "text to write")->capture_default_str();
  decode->add_option("--debug", debug, "table of source locations (default: debug.bin next to program.bin)");
  decode->add_flag("--locations", locations, "print source locations");
  CLI::App *describe = app.add_subcommand("describe", "print the arguments, results and ops of a program");
  describe->add_option("input", input, "program, or MLIR text ending in .mlir")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    if (!dump.empty()) {
      return replay(dump);
    }
    Session session;
    if (encode->parsed()) {
      runtime::EncodedProgram encoded = session.encode(*session.parse(input));
      writeFile(output, encoded.program);
      if (!debug.empty()) {
        writeFile(debug, encoded.debug);
      }
    } else if (decode->parsed()) {
      auto module = session.decode(input, debug.empty() ? debugBeside(input) : debug);
      // Straight to the file: the text of a hostile program is much longer than its bytes.
      std::error_code failure;
      llvm::raw_fd_ostream file(output, failure);
      if (!failure) {
        module->print(file, mlir::OpPrintingFlags().enableDebugInfo(locations));
        file << "\n";
        file.flush();
        failure = file.error();
        file.clear_error();
      }
      if (failure) {
        throw Failure{"cannot write " + output + ": " + failure.message()};
      }
    } else if (describe->parsed()) {
      bool isText = fs::path(input).extension() == ".mlir";
      auto module = isText ? session.parse(input) : session.decode(input, debugBeside(input));
      llvm::outs() << runtime::describeProgram(*module);
    } else {
      llvm::errs() << app.help();
      return 2;
    }
  } catch (const Failure &failure) {
    llvm::errs() << "sojourn-translate: " << failure.text << "\n";
    return kFailed;
  }
  return 0;
}
