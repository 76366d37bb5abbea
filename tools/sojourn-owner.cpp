// SPDX-License-Identifier: Apache-2.0
// The data owner's command line: import tables, say who may learn how much, serve, read what ran.
#include "owner/Accounts.h"
#include "owner/Administration.h"
#include "owner/Logging.h"
#include "owner/Text.h"
#include "owner/process/Ports.h"
#include "tools/OwnerArguments.h"
#include "tools/Version.h"

#include <CLI/CLI.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

using namespace sojourn::owner;

namespace {

using Action = llvm::Error (*)(Owner &owner, const Arguments &arguments);

llvm::Error import(Owner &owner, const Arguments &arguments) {
  RegisterOptions options;
  options.name = arguments.name;
  options.policy = parsePolicy(arguments.policy).value_or(Policy::privateOnly);
  options.population = arguments.population;
  options.maxBytes = arguments.maxBytes;
  options.isApart = true;
  options.progress = progressLine();
  if (llvm::Error error = owner.checkClients(arguments.clients)) { // before a long import
    return error;
  }
  options.continuesBudget = arguments.continuesBudget;
  if (llvm::Error error = readTerms(arguments, options)) {
    return error;
  }
  llvm::Error error = owner.registerDataset({arguments.file, {}}, options);
  if (options.progress) {
    options.progress("", 1, 1);
  }
  if (!error && (arguments.anyone || !arguments.clients.empty())) {
    error = owner.setAccess(arguments.name, {arguments.anyone, arguments.clients});
  }
  if (error) {
    return error;
  }
  return showTable(owner, arguments.name);
}

llvm::Error changeAccess(Owner &owner, const Arguments &arguments) {
  llvm::Error error = llvm::Error::success();
  if (arguments.none || !arguments.clients.empty()) {
    error = owner.setAccess(arguments.name, {false, arguments.clients});
  } else if (arguments.anyone) {
    error = owner.openToAnyone(arguments.name);
  } else if (!arguments.added.empty() || !arguments.removed.empty()) {
    error = owner.changeAccess(arguments.name, arguments.added, arguments.removed);
  }
  if (error) {
    return error;
  }
  auto record = owner.dataset(arguments.name);
  if (!record) {
    return record.takeError();
  }
  printAccess(*record, standardOutput());
  return llvm::Error::success();
}

llvm::Error datasets(Owner &owner, const Arguments &) {
  auto records = owner.datasets();
  if (!records) {
    return records.takeError();
  }
  printDatasets(*records, standardOutput());
  return llvm::Error::success();
}

/// All commands; which one was given is known after parsing.
class Commands {
public:
  Commands(CLI::App &app, Arguments &arguments) : arguments(arguments) {
    addTables(app);
    addService(app);
    addPeers(app);
    addBudgets(app);
  }
  Action action() const { return chosen().action; }
  bool makesStore() const { return chosen().makesStore; }
  bool isServing() const { return serving->parsed(); }

private:
  struct Choice {
    CLI::App *command;
    Action action;
    bool makesStore;
  };
  const Choice &chosen() const {
    // The last one: a command may have further ones below it.
    return *std::find_if(choices.rbegin(), choices.rend(),
                         [](const Choice &choice) { return choice.command->parsed(); });
  }
  /// A command that works on the store, and makes it with `makesStore`.
  CLI::App *add(CLI::App &parent, const char *name, const char *what, Action action, bool makesStore = false) {
    CLI::App *command = parent.add_subcommand(name, what);
    command->add_option("--store", arguments.store, "folder of the owner's data ($SOJOURN_STORE)")
        ->capture_default_str();
    command->set_version_flag("--version", sojourn::versionText(),
                              "print the versions of the release and of its formats");
    choices.push_back({command, action, makesStore});
    return command;
  }
  CLI::App &group(CLI::App &parent, const char *name, const char *what) {
    CLI::App *command = parent.add_subcommand(name, what);
    command->require_subcommand(1);
    return *command;
  }
  void addName(CLI::App *command) { command->add_option("dataset", arguments.name, "a registered table")->required(); }
  void addFile(CLI::App *command) {
    command->add_option("file", arguments.file, ".csv, .tsv, .parquet, .arrow, .feather or .npz")->required();
  }
  void addKey(CLI::App *command) {
    command->add_option("--key", arguments.key, "FILE.pub, written by the client's 'sojourn keygen FILE'")->required();
  }
  void addClientName(CLI::App *command, const char *what) {
    command->add_option("client", arguments.client, what)->required();
  }
  void addPrice(CLI::App *command) {
    command->add_option("--epsilon", arguments.epsilon, "total epsilon of all releases")->required();
    command->add_option("--delta", arguments.delta, "total delta of all releases; well below 1 / number of rows")
        ->required();
  }
  /// --clients and --anyone.
  std::vector<CLI::Option *> addClients(CLI::App *command, const char *what) {
    CLI::Option *clients =
        command->add_option("--clients", arguments.clients, what)->delimiter(',')->allow_extra_args(false);
    CLI::Option *anyone =
        command->add_flag("--anyone", arguments.anyone,
                          "all clients, also those without an identity; steps on a private table still need a grant");
    return {clients, anyone->excludes(clients)};
  }
  CLI::Option *addPolicy(CLI::App *command, const char *name) {
    return command
        ->add_option(name, arguments.policy,
                     "open: values may be published; private: values leave only with noise, charged to a budget")
        ->check(CLI::IsMember({"open", "private"}));
  }

  /// What an import declares about columns and subjects.
  void addMaxBytes(CLI::App *command) {
    command
        ->add_option("--max-bytes", arguments.maxBytes,
                     "limit on the memory that reading the file and its table take together, in bytes; 0: three "
                     "quarters of the machine's memory")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
  }
  void addTerms(CLI::App *command) {
    command->add_option("--bounds", arguments.boundsFile,
                        "TOML file of column ranges, age = [0, 120], and of the other terms, arm = {categories = "
                        "[\"low\", \"high\"], fill = \"low\"}");
    command
        ->add_option("--bound", arguments.bounds,
                     "one range, column=lower:upper, of numbers or dates (repeatable); policy private needs those of "
                     "every column without categories")
        ->allow_extra_args(false);
    command
        ->add_option(
            "--categories", arguments.categories,
            "the texts or whole numbers that a column may hold, column=a,b,c or column=@FILE with one per line "
            "(repeatable); an entry becomes its position in the list. Clients see the list. Policy private "
            "needs it for every column of text; policy open else takes those in the rows, also with column=*")
        ->allow_extra_args(false);
    command
        ->add_option("--fill", arguments.fills,
                     "number, category or date for missing and non-finite entries, and for those outside of the "
                     "categories, column=value (repeatable); clients see it")
        ->allow_extra_args(false);
    command
        ->add_option("--date", arguments.dates,
                     "column of dates, times or texts such as 2024-03-01 that becomes days since 1970-01-01 "
                     "(repeatable); columns of dates do so anyway, those of times become seconds")
        ->allow_extra_args(false);
    command->add_option("--columns", arguments.columns, "columns to keep, separated by commas")
        ->delimiter(',')
        ->allow_extra_args(false);
    CLI::Option *subject = command->add_option(
        "--subject", arguments.subject,
        "column that names the subject of each row, without duplicates; kept sealed, not part of the table");
    command->add_flag("--rows-are-subjects", arguments.rowsAreSubjects, "each row is about a different person")
        ->excludes(subject);
  }

  void addTables(CLI::App &app) {
    CLI::App *command = add(app, "import", "register a table from a file", import, /*makesStore=*/true);
    addFile(command);
    command->add_option("--name", arguments.name, "name that clients use")->required();
    addPolicy(command, "--policy")->capture_default_str();
    addTerms(command);
    command->add_option(
        "--population", arguments.population,
        "name for the people in the table; tables with the same name share one cap (default: the table's name)");
    command->add_flag("--continue-budget", arguments.continuesBudget,
                      "the name is that of a table that was removed; its charges continue");
    addMaxBytes(command);

    addClients(command, "clients that have access to the table, separated by commas (default: none)");

    command = add(app, "replace",
                  "import newer rows of a table; other declarations and all budgets stay as they are; "
                  "takes effect at once, in a running server too",
                  replaceTable);
    addName(command);
    addFile(command);
    addTerms(command);
    addMaxBytes(command);

    command = add(app, "rename",
                  "give a table another name; budgets and access go along; takes effect at once, in a "
                  "running server too",
                  renameTable);
    addName(command);
    command->add_option("to", arguments.to, "its new name")->required();

    command = add(app, "remove",
                  "delete the rows of a table; its charges remain; takes effect at once, in a running "
                  "server too",
                  removeTable);
    addName(command);
    command->add_flag("--yes", arguments.yes, "do not ask");

    command = add(app, "describe",
                  "say what a table holds, for clients with access to it, who find it by these words and tags; takes "
                  "effect at once, in a running server too",
                  describeTable);
    addName(command);
    command->add_option("--text", arguments.words, "in place of what there was; \"\" removes it");
    command->add_option("--tag", arguments.tags, "one more tag (repeatable, or separated by commas)")
        ->delimiter(',')
        ->allow_extra_args(false);
    command->add_option("--remove-tag", arguments.removed, "a tag that no longer fits (repeatable)")
        ->delimiter(',')
        ->allow_extra_args(false);
    command->add_flag("--no-tags", arguments.none, "remove all tags that there were");

    add(app, "datasets", "list registered tables", datasets);

    command =
        add(app, "access", "show or change who has access to a table; takes effect at once, in a running server too",
            changeAccess);
    addName(command);
    std::vector<CLI::Option *> whole = addClients(command, "these clients alone, separated by commas");
    whole.push_back(command->add_flag("--none", arguments.none, "only the data owner's own process"));
    whole[0]->excludes(whole[2]);
    whole[1]->excludes(whole[2]);
    for (const auto &[name, clients, what] : {std::tuple("--add", &arguments.added, "this client, too"),
                                              std::tuple("--remove", &arguments.removed, "this client no longer")}) {
      CLI::Option *option =
          command->add_option(name, *clients, std::string(what) + " (repeatable, or separated by commas)")
              ->delimiter(',')
              ->allow_extra_args(false);
      for (CLI::Option *other : whole) {
        option->excludes(other);
      }
    }

    command =
        add(app, "policy", "change the policy of a table; takes effect at once, for older values and a running server",
            changePolicy);
    addName(command);
    addPolicy(command, "policy")->required();
    command->add_flag("--rows-are-subjects", arguments.rowsAreSubjects,
                      "each row is about a different person (if the import declared no subjects)");
    command->add_flag("--yes", arguments.yes, "do not ask before a private table becomes open");

    command =
        add(app, "defaults", "change a private table's defaults for steps that declare no terms; takes effect at once",
            changeDefaults);
    addName(command);
    command->add_option("--noise-multiplier", arguments.noiseMultiplier, "ratio of noise to sensitivity in a step");
    command->add_option("--clip", arguments.clip, "bound on the gradient of a row");
    command->add_option("--metric-bound", arguments.metricBound,
                        "bound on the contribution of a row to a published value of unknown range");
  }

  void addService(CLI::App &app) {
    CLI::App *command = add(app, "serve", "answer clients until interrupted", serveTables, /*makesStore=*/true);
    serving = command;
    addSettings(command, arguments);
    command->add_flag("--verbose", arguments.verbose, "log every request (sizes, never values)");

    command = add(app, "cert", "show the certificate of tls+tcp:// addresses, which is made at the first use",
                  showCertificate, /*makesStore=*/true);
    command->add_flag("--renew", arguments.renew, "make another one in its place, for servers that start from now on");

    command = add(app, "status",
                  "show what the servers of the store do, with their settings; without any, those of a "
                  "new one",
                  showStatus, /*makesStore=*/true);
    command->add_option("--config", arguments.config, "TOML file with settings of a new server");
    command->add_flag("--json", arguments.asJson, "as JSON");

    CLI::App *values =
        add(app, "values",
            "list the values that clients of the running servers have given names; they are in the memory of a server "
            "and end with it",
            showValues);
    values->add_option("--client", arguments.client, "those of one client");
    values->add_flag("--json", arguments.asJson, "as JSON");
    command =
        add(*values, "release",
            "take the name of a value away; its memory is free once no connection of the client uses it", releaseValue);
    command->add_option("name", arguments.name, "the value's name")->required();
    command->add_option("--client", arguments.client, "the client that gave it")->required();

    command = add(app, "programs", "list programs that ran, with the releases of those on private tables", programs);
    CLI::Option *text = command->add_option("--text", arguments.text,
                                            "show the program with this start of its hash, with source lines");
    CLI::Option *archive = command->add_option(
        "--archive", arguments.archive,
        "move all programs to this file, which is made or gets them beside its own; also beside a running server");
    command->add_option("--from", arguments.from, "list the programs of a file that --archive wrote")
        ->excludes(archive);
    archive->excludes(text);
  }

  void addPeers(CLI::App &app) {
    CLI::App &peers = group(app, "peer",
                            "manage the other owners that may be members of groups with this one; takes effect at "
                            "once, in a running server too");
    auto addPeerName = [&](CLI::App *command) {
      return command->add_option("owner", arguments.client, "an owner that was added");
    };
    CLI::App *command = add(peers, "add", "add an owner by its public key and the address of its server's --peers",
                            addPeer, /*makesStore=*/true);
    command->add_option("owner", arguments.client, "name for the owner: letters, digits and - _ . @")->required();
    command->add_option("--key", arguments.key, "what 'sojourn-owner key' prints there: 64 digits, or a file with them")
        ->required();
    command->add_option("--address", arguments.address, "tls+tcp://host:port or ipc:///path/to.sock")->required();
    command->add_flag("--plain-tcp", arguments.plainTcp,
                      "take tcp://127.0.0.1:port, too: without encryption, for tests on one machine");
    command = add(peers, "remove", "remove an owner; groups with it end", removePeer);
    addPeerName(command)->required();
    add(peers, "list", "list the owners, their addresses and keys", listPeers);
    command = add(peers, "check",
                  "see whether owners answer, have the key that is registered, and know this one; without a name, all "
                  "of them",
                  checkPeers);
    addPeerName(command);

    command =
        add(app, "share",
            "show or change the access of other owners to values computed from a table's rows, in programs over the "
            "tables of several owners; takes effect at once, in a running server too. It protects from other "
            "owners, not from clients: a client can hand on values that it may publish, and one that makes the other "
            "owners' parts of a sum zero shows them this owner's",
            shareTable);
    addName(command);
    CLI::Option *with = command->add_option("--with", arguments.clients, "these owners, separated by commas")
                            ->delimiter(',')
                            ->allow_extra_args(false);
    CLI::Option *level =
        command
            ->add_option("--as", arguments.level,
                         "none: nothing, a program that combines the table with theirs is refused; sums: sums over "
                         "rows of all owners of a group of three or more, of which each sees the total alone; clear: "
                         "the values that the "
                         "client of the group may see")
            ->check(CLI::IsMember({"none", "sums", "clear"}));
    with->needs(level);
    level->needs(with);
  }

  void addBudgets(CLI::App &app) {
    CLI::App &clients = group(app, "client", "manage clients; takes effect at once, in a running server too");
    CLI::App *command = add(clients, "add", "add a client by its public key", addClient, /*makesStore=*/true);
    addClientName(command, "name for the client: letters, digits and - _ . @");
    addKey(command);
    command->add_flag("--continue-budget", arguments.continuesBudget,
                      "the client was removed and comes back; its charges continue");
    command = add(clients, "key", "give a client another key; sessions of the last one end, budgets stay", changeKey);
    addClientName(command, "a client that was added");
    addKey(command);
    command = add(clients, "remove", "end a client's sessions, access and grants; its charges remain", removeClient);
    addClientName(command, "a client that was added");
    add(clients, "list", "list clients and their keys",
        [](Owner &owner, const Arguments &) { return printClients(owner, standardOutput()); });

    CLI::App &budgets = group(app, "budget", "manage caps and grants; takes effect at once, in a running server too");
    command = add(budgets, "cap", "set the cap on all clients together for a table's people", cap);
    addName(command);
    addPrice(command);
    command = add(
        budgets, "grant",
        "set the total budget of a client on a table, and give it access; needs a cap, and is at most the cap", grant);
    addClientName(command, "a client that was added");
    addName(command);
    addPrice(command);
    command = add(budgets, "revoke", "withdraw a grant, and the access to the table; charges remain", revoke);
    addClientName(command, "a client with a grant");
    addName(command);
    command = add(budgets, "show", "list caps and grants with their remainders, and overruns",
                  [](Owner &owner, const Arguments &a) { return printBudgets(owner, a.name, standardOutput()); });
    command->add_option("dataset", arguments.name, "one table only");

    command =
        add(app, "forgive-overruns",
            "open a table again to a client whose steps took longer than their time too often; their count starts "
            "at zero; takes effect at once, in a running server too",
            forgiveOverruns);
    addName(command);
    command->add_option("--client", arguments.client, "a client that was added")->required();

    CLI::App &ledgers = group(app, "ledger", "every charge, in order");
    command = add(ledgers, "show", "list the newest entries", [](Owner &owner, const Arguments &a) {
      return printLedger(owner, a.last, a.client, standardOutput());
    });
    command->add_option("--last", arguments.last, "number of entries")
        ->check(CLI::Range(1, 100'000'000))
        ->capture_default_str();
    command->add_option("--client", arguments.client, "entries of one client only");
    add(ledgers, "verify", "check chain, signatures, sums and sealed bytes of the whole ledger",
        [](Owner &owner, const Arguments &) { return verifyLedger(owner, standardOutput()); });

    add(app, "key", "print the owner's public key, which verifies receipts and identifies the owner to clients",
        showKey,
        /*makesStore=*/true);
  }

  Arguments &arguments;
  CLI::App *serving = nullptr;
  std::vector<Choice> choices;
};

llvm::Error runCommand(const Commands &commands, const Arguments &arguments) {
  if (!arguments.from.empty()) {
    return archivedPrograms(arguments);
  }
  std::error_code unread;
  if (!commands.makesStore() &&
      std::filesystem::status(arguments.store, unread).type() == std::filesystem::file_type::not_found) {
    return llvm::createStringError("there is no store at '" + arguments.store +
                                   "'; name one with --store or $SOJOURN_STORE, or make one with 'sojourn-owner "
                                   "import FILE --name NAME --store " +
                                   arguments.store + "'");
  }
  Environment environment = Environment::system(arguments.store);
  if (commands.isServing()) { // before the store is opened: workers have nothing of it
    auto processes = WorkerProcesses::start(
        {.most = arguments.settings.limits.processes, .bytes = arguments.settings.limits.processBytes});
    if (!processes) {
      return processes.takeError();
    }
    environment.worker = processWorkers(std::move(*processes));
  } else {
    environment.worker = noWorkers();
  }
  environment.log = logToStandardError(arguments.verbose, arguments.settings.log == "json");
  Owner owner(std::move(environment), arguments.settings.limits);
  std::string problem = owner.status();
  return problem.empty() ? commands.action()(owner, arguments) : llvm::createStringError(problem);
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Keep tables, run scientists' programs on them, manage budgets and list the programs that ran.",
               "sojourn-owner");
  app.set_version_flag("--version", sojourn::versionText(), "print the versions of the release and of its formats");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 failed, 2 wrong usage.");
  Commands commands(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  llvm::Error wrong = takeSettings(arguments);
  wrong = wrong || !commands.isServing() ? std::move(wrong) : checkSettings(arguments.settings);
  if (wrong) {
    PrintableStream(llvm::errs()) << "sojourn-owner: " << llvm::toString(std::move(wrong)) << '\n';
    return 2;
  }
  umask(077); // what it makes is its account's alone
  if (llvm::Error result = runCommand(commands, arguments)) {
    PrintableStream(llvm::errs()) << "sojourn-owner: " << llvm::toString(std::move(result)) << '\n';
    return 1;
  }
  return 0;
}
