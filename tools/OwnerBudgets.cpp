// SPDX-License-Identifier: Apache-2.0
// Commands about clients and what they may learn, and the owner's key.
#include "owner/Accounts.h"
#include "owner/Administration.h"
#include "tools/OwnerArguments.h"

namespace sojourn::owner {

llvm::Error addClient(Owner &owner, const Arguments &arguments) {
  auto key = sojourn::signing::readPublicKey(arguments.key);
  if (!key) {
    return llvm::createStringError(key.problem().text);
  }
  if (llvm::Error error = owner.addClient(arguments.client, *key, arguments.continuesBudget)) {
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

llvm::Error showKey(Owner &owner, const Arguments &) {
  standardOutput() << owner.key() << '\n';
  return llvm::Error::success();
}

} // namespace sojourn::owner
