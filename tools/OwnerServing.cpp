// SPDX-License-Identifier: Apache-2.0
// Commands about servers: their settings, from the command line and a file; serving; what servers tell of themselves.
#include "owner/Certificate.h"
#include "owner/Owner.h"
#include "owner/StatusServer.h"
#include "owner/Text.h"
#include "runtime/signing/Bytes.h"
#include "tools/OwnerArguments.h"

#include <CLI/CLI.hpp>
#include <llvm/Support/Threading.h>

#include <algorithm>
#include <cmath>

namespace sojourn::owner {

llvm::Error serveTables(Owner &owner, const Arguments &arguments) {
  return serveUntilSignal(owner, arguments.settings, arguments.store, standardOutput());
}

llvm::Error showStatus(Owner &, const Arguments &arguments) {
  return printStatus(arguments.store, arguments.settings, arguments.asJson, standardOutput());
}

llvm::Error showValues(Owner &, const Arguments &arguments) {
  return printNamedValues(arguments.store, arguments.client, arguments.asJson, standardOutput());
}

llvm::Error releaseValue(Owner &, const Arguments &arguments) {
  return releaseNamedValue(arguments.store, arguments.client, arguments.name, standardOutput());
}

llvm::Error showCertificate(Owner &owner, const Arguments &arguments) {
  auto certificate = owner.certificate(arguments.renew);
  if (!certificate) {
    return certificate.takeError();
  }
  llvm::raw_ostream &out = standardOutput();
  out << "certificate  " << certificatePath(arguments.store) << ", with its secret key\ndigest       "
      << signing::hex(certificate->digest) << " (SHA-256)\nname         " << signing::kServerName << ", from "
      << kCertificateBegin << " to " << kCertificateEnd << "\nsigned by    " << owner.key()
      << ", the owner's key\na client of 'sojourn-owner serve --listen tls+tcp://HOST:PORT' connects with "
         "sojourn.connect(\"tls+tcp://HOST:PORT\", owner_key=\""
      << owner.key() << "\")\n";
  if (arguments.renew) {
    out << "a running server keeps the certificate that it has; start it again\n";
  }
  return llvm::Error::success();
}

llvm::Error takeSettings(Arguments &arguments) {
  ServeSettings &settings = arguments.settings;
  if (llvm::Error error =
          arguments.config.empty() ? llvm::Error::success() : readSettings(arguments.config, settings)) {
    return error;
  }
  for (const auto &[setting, value] : arguments.numbers) {
    if (std::isnan(value)) {
      return llvm::createStringError(std::string(setting->option) + " is nan, expected a number");
    }
    setting->set(settings, value);
  }
  for (const auto &[setting, value] : arguments.texts) {
    settings.*setting->text = value;
  }
  for (const FlagSetting *setting : arguments.flags) {
    settings.*setting->flag = true;
  }
  // Of the processors that this process may run on, which may be fewer than the machine has.
  settings.settle(std::max(1u, llvm::hardware_concurrency().compute_thread_count()));
  return llvm::Error::success();
}

void addSettings(CLI::App *command, Arguments &arguments) {
  command->add_option("--config", arguments.config,
                      "TOML file with settings; options of the command line come before it. 'sojourn-owner status' "
                      "shows all keys");
  for (const TextSetting &setting : textSettings()) {
    command->add_option_function<std::string>(
        setting.option, [&](const std::string &text) { arguments.texts.emplace_back(&setting, text); }, setting.help);
  }
  for (const FlagSetting &setting : flagSettings()) {
    command->add_flag_callback(
        setting.option, [&] { arguments.flags.push_back(&setting); }, setting.help);
  }
  for (const NumberSetting &setting : numberSettings()) {
    if (*setting.option == '\0') {
      continue;
    }
    const double value = setting.get(arguments.settings);
    auto take = [&](double number) { arguments.numbers.emplace_back(&setting, number); };
    if (setting.isWhole) {
      command
          ->add_option_function<int64_t>(
              setting.option, [take](int64_t number) { take(static_cast<double>(number)); }, setting.help)
          ->check(CLI::Range(static_cast<int64_t>(setting.least), static_cast<int64_t>(setting.most)))
          ->default_str(numberText(value));
    } else {
      command->add_option_function<double>(setting.option, take, setting.help)
          ->check(CLI::Range(setting.least, setting.most))
          ->default_str(numberText(value));
    }
  }
}

} // namespace sojourn::owner
