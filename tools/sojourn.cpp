// SPDX-License-Identifier: Apache-2.0
// The data scientist's command line: a key that says who they are.
#include "runtime/signing/SigningKey.h"
#include "tools/Version.h"

#include <CLI/CLI.hpp>

#include <cstdio>

using namespace sojourn;

int main(int argc, char **argv) {
  std::string file;
  CLI::App app("Create the key that identifies you to data owners.", "sojourn");
  app.set_version_flag("--version", versionText(), "print the versions of the release and of its formats");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 failed, 2 wrong usage.");
  auto *keygen = app.add_subcommand(
      "keygen", "write a new secret key to FILE, readable by you alone, and its public half to FILE.pub");
  keygen->add_option("file", file, "a new file: a key is never overwritten")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  auto key = signing::SigningKey::makeClient(file);
  if (!key) {
    std::fprintf(stderr, "sojourn: %s\n", key.problem().text.c_str());
    return 1;
  }
  std::printf("keep %s secret; send %s.pub to the data owner, who adds it with\n"
              "  sojourn-owner client add NAME --key %s.pub\n"
              "then: sojourn.connect(ADDRESS, identity=\"%s\")\npublic key %s\n",
              file.c_str(), file.c_str(), file.c_str(), file.c_str(), signing::keyText(key->publicKey()).c_str());
  return 0;
}
