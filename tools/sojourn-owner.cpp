// SPDX-License-Identifier: Apache-2.0
// The data owner's command line: import tables, say who may learn how much, serve, read what ran.
#include "owner/Accounts.h"
#include "owner/Administration.h"
#include "owner/Import.h"
#include "owner/Logging.h"
#include "owner/Text.h"
#include "tools/Version.h"

#include <CLI/CLI.hpp>
#include <sys/stat.h>

using namespace sojourn::owner;

namespace {

/// Texts of others (files, clients, programs) are shown without characters that steer a terminal.
llvm::raw_ostream &standardOutput() {
  static PrintableStream stream(llvm::outs());
  return stream;
}

struct Arguments {
  std::string store = defaultStoreDirectory();
  std::string file, name, client, policy = "private", boundsFile, listen, text, subject, population, key;
  std::vector<std::string> bounds, fills, categories, dates, columns, clients, added, removed;
  bool rowsAreSubjects = false, verbose = false, anyone = false, none = false;
  std::optional<double> epsilon, delta, noiseMultiplier, clip, metricBound;
  size_t last = 50;
  int64_t maxBytes = 0;
  unsigned workers = ServerOptions().workers;
  Limits limits;
};

using Action = llvm::Error (*)(Owner &owner, const Arguments &arguments);

llvm::Error import(Owner &owner, const Arguments &arguments) {
  RegisterOptions options;
  options.name = arguments.name;
  options.policy = parsePolicy(arguments.policy).value_or(Policy::privateOnly);
  options.columns = arguments.columns;
  options.population = arguments.population;
  if (arguments.rowsAreSubjects || !arguments.subject.empty()) {
    options.subject = arguments.subject;
  }
  options.maxBytes = arguments.maxBytes;
  options.isApart = true;
  options.progress = progressLine();
  if (llvm::Error error = owner.checkClients(arguments.clients)) { // before a long import
    return error;
  }
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
  for (const std::string &categories : arguments.categories) {
    if (llvm::Error error = parseCategories(categories, options)) {
      return error;
    }
  }
  for (const std::string &column : arguments.dates) {
    options.meanings[column].unit = sojourn::Unit::Days;
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
  auto record = owner.dataset(arguments.name);
  if (!record) {
    return record.takeError();
  }
  printDatasets(*record, standardOutput());
  return llvm::Error::success();
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

llvm::Error programs(Owner &owner, const Arguments &arguments) {
  auto records = owner.programs(!arguments.text.empty());
  if (!records) {
    return records.takeError();
  }
  if (!arguments.text.empty()) {
    return printProgramText(*records, arguments.text, standardOutput());
  }
  printPrograms(*records, standardOutput());
  return llvm::Error::success();
}

llvm::Error changePolicy(Owner &owner, const Arguments &arguments) {
  Policy policy = parsePolicy(arguments.policy).value_or(Policy::privateOnly);
  if (llvm::Error error = owner.setPolicy(arguments.name, policy, arguments.rowsAreSubjects)) {
    return error;
  }
  standardOutput() << arguments.name << ": policy " << policyName(policy) << '\n';
  return llvm::Error::success();
}

llvm::Error changeDefaults(Owner &owner, const Arguments &arguments) {
  auto record = owner.dataset(arguments.name);
  if (!record) {
    return record.takeError();
  }
  PrivacyDefaults defaults = record->defaults;
  defaults.noiseMultiplier = arguments.noiseMultiplier.value_or(defaults.noiseMultiplier);
  defaults.clip = arguments.clip.value_or(defaults.clip);
  defaults.metricBound = arguments.metricBound.value_or(defaults.metricBound);
  if (llvm::Error error = owner.setDefaults(arguments.name, defaults)) {
    return error;
  }
  standardOutput() << arguments.name << ": noise multiplier " << numberText(defaults.noiseMultiplier) << ", clip "
                   << numberText(defaults.clip) << ", metric bound " << numberText(defaults.metricBound) << '\n';
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

llvm::Error addClient(Owner &owner, const Arguments &arguments) {
  auto key = sojourn::signing::readPublicKey(arguments.key);
  if (!key) {
    return llvm::createStringError(key.problem().text);
  }
  if (llvm::Error error = owner.accounts().addClient(arguments.client, *key)) {
    return error;
  }
  standardOutput() << "client " << arguments.client << " has key " << sojourn::signing::keyText(*key)
                   << "\nit connects with sojourn.connect(ADDRESS, identity=FILE, owner_key=\"" << owner.key()
                   << "\")\n";
  return llvm::Error::success();
}

llvm::Error cap(Owner &owner, const Arguments &arguments) {
  if (llvm::Error error = owner.setCap(arguments.name, *arguments.epsilon, *arguments.delta)) {
    return error;
  }
  return printBudgets(owner, arguments.name, standardOutput());
}

llvm::Error grant(Owner &owner, const Arguments &arguments) {
  if (llvm::Error error = owner.grant(arguments.client, arguments.name, *arguments.epsilon, *arguments.delta)) {
    return error;
  }
  return printBudgets(owner, arguments.name, standardOutput());
}

llvm::Error revoke(Owner &owner, const Arguments &arguments) {
  if (llvm::Error error = owner.revoke(arguments.client, arguments.name)) {
    return error;
  }
  return printBudgets(owner, arguments.name, standardOutput());
}

llvm::Error key(Owner &owner, const Arguments &) {
  standardOutput() << owner.key() << '\n';
  return llvm::Error::success();
}

llvm::Error serve(Owner &owner, const Arguments &arguments) {
  return serveUntilSignal(owner, {arguments.listen, arguments.workers}, standardOutput());
}

/// All commands; which one was given is known after parsing.
class Commands {
public:
  Commands(CLI::App &app, Arguments &arguments) : arguments(arguments) {
    addTables(app);
    addService(app);
    addBudgets(app);
  }
  Action chosen() const {
    for (const auto &[command, action] : actions) {
      if (command->parsed()) {
        return action;
      }
    }
    return nullptr;
  }

private:
  CLI::App *add(CLI::App &parent, const char *name, const char *what, Action action) {
    CLI::App *command = parent.add_subcommand(name, what);
    command->add_option("--store", arguments.store, "folder of the owner's data ($SOJOURN_STORE)")
        ->capture_default_str();
    actions.emplace_back(command, action);
    return command;
  }
  CLI::App &group(CLI::App &parent, const char *name, const char *what) {
    CLI::App *command = parent.add_subcommand(name, what);
    command->require_subcommand(1);
    return *command;
  }
  void addName(CLI::App *command) { command->add_option("dataset", arguments.name, "a registered table")->required(); }
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

  void addTables(CLI::App &app) {
    CLI::App *command = add(app, "import", "register a table from a file", import);
    command->add_option("file", arguments.file, ".csv, .tsv, .parquet, .arrow, .feather or .npz")->required();
    command->add_option("--name", arguments.name, "name that clients use")->required();
    addPolicy(command, "--policy")->capture_default_str();
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
    command->add_option(
        "--population", arguments.population,
        "name for the people in the table; tables with the same name share one cap (default: the table's name)");
    command
        ->add_option("--max-bytes", arguments.maxBytes,
                     "limit on the memory that reading the file and its table take together, in bytes; 0: three "
                     "quarters of the machine's memory")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();

    addClients(command, "clients that have access to the table, separated by commas (default: none)");

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
    CLI::App *command = add(app, "serve", "answer clients until interrupted", serve);
    command->add_option("--listen", arguments.listen, "ipc:///path/to.sock or tcp://host:port")->required();
    command
        ->add_option("--workers", arguments.workers,
                     "requests served at once; a step occupies one worker while it runs")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    command
        ->add_option("--max-operations", arguments.limits.price.operations,
                     "limit on elements computed or moved by one step; larger programs are refused unbuilt")
        ->capture_default_str();
    command
        ->add_option("--max-arena", arguments.limits.price.arenaBytes,
                     "limit on intermediate values of one step, in bytes")
        ->capture_default_str();
    command
        ->add_option_function<int64_t>(
            "--reconnect-seconds", [&](int64_t seconds) { arguments.limits.goneMs = 1000 * seconds; },
            "time that a client's values outlive its connection, in which it may come back")
        ->check(CLI::Range(int64_t{0}, int64_t{7} * 24 * 3600))
        ->default_str(std::to_string(arguments.limits.goneMs / 1000));
    command
        ->add_option(
            "--max-values", arguments.limits.handleBytes,
            "limit on the values that all clients keep, in bytes, of which clients without an identity have an "
            "eighth together and any other client half; 0: half of the machine's memory")
        ->capture_default_str();
    command->add_flag("--verbose", arguments.verbose, "log every request (sizes, never values)");

    command = add(app, "programs", "list programs that ran, with the releases of those on private tables", programs);
    command->add_option("--text", arguments.text, "show the program with this start of its hash, with source lines");
  }

  void addBudgets(CLI::App &app) {
    CLI::App &clients = group(app, "client", "manage clients; takes effect at once, in a running server too");
    CLI::App *command = add(clients, "add", "add a client by its public key", addClient);
    addClientName(command, "name for the client: letters, digits and - _ . @");
    command->add_option("--key", arguments.key, "FILE.pub, written by the client's 'sojourn keygen FILE'")->required();
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
    command = add(budgets, "show", "list caps and grants with their remainders",
                  [](Owner &owner, const Arguments &a) { return printBudgets(owner, a.name, standardOutput()); });
    command->add_option("dataset", arguments.name, "one table only");

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

    add(app, "key", "print the owner's public key, which verifies receipts and identifies the owner to clients", key);
  }

  Arguments &arguments;
  std::vector<std::pair<CLI::App *, Action>> actions;
};

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

  umask(077); // what it makes is its account's alone
  Environment environment = Environment::system(arguments.store);
  environment.log = logToStandardError(arguments.verbose);
  Owner owner(std::move(environment), arguments.limits);
  std::string problem = owner.status();
  llvm::Error result = problem.empty() ? commands.chosen()(owner, arguments) : llvm::createStringError(problem);
  if (result) {
    PrintableStream(llvm::errs()) << "sojourn-owner: " << llvm::toString(std::move(result)) << '\n';
    return 1;
  }
  return 0;
}
