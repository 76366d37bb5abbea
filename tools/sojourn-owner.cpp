// SPDX-License-Identifier: Apache-2.0
// The data owner's command line: import tables, serve them, read what ran.
#include "owner/Administration.h"
#include "owner/Import.h"
#include "owner/Logging.h"

#include <CLI/CLI.hpp>

using namespace sojourn::owner;

namespace {

struct Arguments {
  std::string store = defaultStoreDirectory();
  std::string file, name, policy = "private", boundsFile, listen, text;
  std::vector<std::string> bounds, fills, columns;
  unsigned workers = ServerOptions().workers;
  Limits limits;
  bool verbose = false;
};

llvm::Error import(Owner &owner, const Arguments &arguments) {
  RegisterOptions options;
  options.name = arguments.name;
  options.policy = parsePolicy(arguments.policy).value_or(Policy::privateOnly);
  options.columns = arguments.columns;
  options.progress = progressLine();
  if (!arguments.boundsFile.empty()) {
    if (llvm::Error error = readBoundsFile(arguments.boundsFile, options)) {
      return error;
    }
  }
  for (const std::string &bound : arguments.bounds) {
    if (llvm::Error error = parseBound(bound, options)) {
      return error;
    }
  }
  for (const std::string &fill : arguments.fills) {
    if (llvm::Error error = parseFill(fill, options)) {
      return error;
    }
  }
  llvm::Error error = owner.registerDataset({arguments.file, {}}, options);
  if (options.progress) {
    options.progress("", 1, 1);
  }
  if (error) {
    return error;
  }
  auto records = owner.datasets();
  if (!records) {
    return records.takeError();
  }
  for (const DatasetRecord &record : *records) {
    if (record.name == arguments.name) {
      printDatasets(record, llvm::outs());
    }
  }
  return llvm::Error::success();
}

llvm::Error programs(Owner &owner, const Arguments &arguments) {
  auto records = owner.programs(!arguments.text.empty());
  if (!records) {
    return records.takeError();
  }
  if (!arguments.text.empty()) {
    return printProgramText(*records, arguments.text, llvm::outs());
  }
  printPrograms(*records, llvm::outs());
  return llvm::Error::success();
}

llvm::Error changePolicy(Owner &owner, const Arguments &arguments) {
  Policy policy = parsePolicy(arguments.policy).value_or(Policy::privateOnly);
  if (llvm::Error error = owner.setPolicy(arguments.name, policy)) {
    return error;
  }
  llvm::outs() << arguments.name << ": policy " << policyName(policy) << '\n';
  return llvm::Error::success();
}

llvm::Error datasets(Owner &owner) {
  auto records = owner.datasets();
  if (!records) {
    return records.takeError();
  }
  printDatasets(*records, llvm::outs());
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Keep tables, run scientists' programs on them, read what ran.", "sojourn-owner");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 failed, 2 wrong usage.");
  auto addStore = [&](CLI::App *command) {
    command->add_option("--store", arguments.store, "folder of the owner's data ($SOJOURN_STORE)")
        ->capture_default_str();
    return command;
  };

  auto *importCommand = addStore(app.add_subcommand("import", "register a table from a file"));
  importCommand->add_option("file", arguments.file, ".csv, .tsv, .parquet, .arrow, .feather or .npz")->required();
  importCommand->add_option("--name", arguments.name, "name that clients use")->required();
  importCommand
      ->add_option("--policy", arguments.policy,
                   "open: values may be published; private: they leave with noise only, paid from a budget")
      ->check(CLI::IsMember({"open", "private"}))
      ->capture_default_str();
  importCommand->add_option("--bounds", arguments.boundsFile, "TOML file of column ranges: age = [0, 120]");
  importCommand->add_option("--bound", arguments.bounds, "one range, column=lower:upper (repeatable)")
      ->allow_extra_args(false);
  importCommand
      ->add_option("--fill", arguments.fills, "value for missing and non-finite entries, column=value (repeatable)")
      ->allow_extra_args(false);
  importCommand->add_option("--columns", arguments.columns, "columns to keep, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);

  auto *datasetsCommand = addStore(app.add_subcommand("datasets", "list registered tables"));

  auto *policyCommand = addStore(app.add_subcommand(
      "policy", "change what may leave of a table; holds at once, for older values and a running server"));
  policyCommand->add_option("name", arguments.name, "a registered table")->required();
  policyCommand
      ->add_option("policy", arguments.policy,
                   "open: values may be published; private: they leave with noise only, paid from a budget")
      ->required()
      ->check(CLI::IsMember({"open", "private"}));

  auto *serveCommand = addStore(app.add_subcommand("serve", "answer clients until interrupted"));
  serveCommand->add_option("--listen", arguments.listen, "ipc:///path/to.sock or tcp://host:port")->required();
  serveCommand->add_option("--workers", arguments.workers, "requests served at once; a step holds one while it runs")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  serveCommand
      ->add_option("--max-operations", arguments.limits.price.operations,
                   "elements computed or moved that one step may ask for; dearer programs are refused unbuilt")
      ->capture_default_str();
  serveCommand
      ->add_option("--max-arena", arguments.limits.price.arenaBytes, "intermediate values of one step, in bytes")
      ->capture_default_str();
  serveCommand->add_flag("--verbose", arguments.verbose, "log every request (sizes, never values)");

  auto *programsCommand = addStore(app.add_subcommand("programs", "list programs that ran"));
  programsCommand->add_option("--text", arguments.text,
                              "show the program whose hash starts like this, with source lines");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  Environment environment = Environment::system(arguments.store);
  environment.log = logToStandardError(arguments.verbose);
  Owner owner(std::move(environment), arguments.limits);
  llvm::Error result = [&]() -> llvm::Error {
    if (importCommand->parsed()) {
      return import(owner, arguments);
    }
    if (datasetsCommand->parsed()) {
      return datasets(owner);
    }
    if (policyCommand->parsed()) {
      return changePolicy(owner, arguments);
    }
    if (programsCommand->parsed()) {
      return programs(owner, arguments);
    }
    return serveUntilSignal(owner, {arguments.listen, arguments.workers}, llvm::outs());
  }();
  if (result) {
    llvm::errs() << "sojourn-owner: " << llvm::toString(std::move(result)) << '\n';
    return 1;
  }
  return 0;
}
