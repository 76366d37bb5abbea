// SPDX-License-Identifier: Apache-2.0
// What datasets show to other owners, in the catalogue.
#include "owner/Catalogue.h"
#include "owner/Error.h"
#include "owner/Peer.h"
#include "owner/Statement.h"

#include <set>

namespace sojourn::owner {

llvm::Expected<Sharing> Catalogue::sharing(const Source &source, const signing::PublicKey &member) {
  const std::string key = signing::keyText(member);
  Answers &known = answers();
  auto &ofVersion = known.sharing[source.version];
  if (auto found = ofVersion.find(key); found != ofVersion.end()) {
    return found->second;
  }
  // Names change, versions do not; of rows that were replaced the word about those in their place counts.
  Statement read(database,
                 "SELECT level FROM sharing WHERE member = ?1 AND dataset IN (SELECT name FROM datasets WHERE "
                 "version = ?2 UNION ALL SELECT datasets.name FROM former JOIN datasets ON datasets.version = "
                 "former.became WHERE former.version = ?2)");
  const int state = read.bind(key).bind(source.version).step();
  if (state != SQLITE_ROW && state != SQLITE_DONE) {
    return lastError("reading what a dataset shows to other owners");
  }
  // A level of a later release is the most careful one.
  const Sharing sharing = state == SQLITE_ROW ? parseSharing(read.text(0)).value_or(Sharing::none) : Sharing::none;
  if (known.sharing.size() < kKeptAnswers) {
    keep(ofVersion, key, sharing);
  }
  return sharing;
}

llvm::Expected<bool> Catalogue::sharesSums(llvm::ArrayRef<signing::PublicKey> members, const std::string &account) {
  std::set<std::string> names;
  for (const signing::PublicKey &member : members) {
    Statement read(database,
                   "SELECT dataset FROM sharing JOIN datasets ON name = dataset WHERE member = ? AND level = ? "
                   "AND policy = 'open'");
    read.bind(signing::keyText(member)).bind(std::string(sharingName(Sharing::sums)));
    int state;
    while ((state = read.step()) == SQLITE_ROW) {
      names.insert(read.text(0));
    }
    if (state != SQLITE_DONE) {
      return lastError("reading what datasets show to other owners");
    }
  }
  for (const std::string &name : names) {
    auto access = account == kLocalClient ? llvm::Expected<bool>(true) : hasAccess(name, account);
    if (!access || *access) {
      return access;
    }
  }
  return false;
}

llvm::Error Catalogue::setSharing(const std::string &name, const std::vector<signing::PublicKey> &members,
                                  Sharing sharing) {
  return transact([&]() -> llvm::Error {
    if (llvm::Error error = checkNamed(name)) {
      return error;
    }
    for (const signing::PublicKey &member : members) {
      if (llvm::Error error = change({"INSERT OR REPLACE INTO sharing VALUES(?, ?, ?)"},
                                     {name, signing::keyText(member), sharingName(sharing)}, "sharing a dataset")) {
        return error;
      }
    }
    return llvm::Error::success();
  });
}

} // namespace sojourn::owner
