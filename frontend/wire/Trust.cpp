// SPDX-License-Identifier: Apache-2.0
// Introductions of owners, before their certificates are used (see Trust.h).
#include "frontend/wire/Trust.h"

#include "frontend/Error.h"

namespace sojourn::frontend {

std::string Trust::certificateOf(std::string_view introduction) {
  auto read = signing::readIntroduction(introduction);
  if (!read) {
    throw Error(ErrorKind::OwnerError, "the server at " + owners_->address() +
                                           " does not introduce itself as an owner; check the address, or ask the "
                                           "data owner for the release that it runs");
  }
  std::string key = signing::keyText(read->owner);
  if (!signing::isGenuine(*read)) {
    throw Error(ErrorKind::Refused, "the server at " + owners_->address() + " shows a certificate that the key " + key +
                                        " has not signed; ask the data owner");
  }
  // The server holds the certificate's key, so no relay reads or changes a message.
  owners_->check(key, /*isRelayed=*/false);
  std::lock_guard lock(mutex_);
  ownerKey_ = std::move(key);
  digest_ = signing::digestOf(read->certificate);
  return signing::pemOf(read->certificate);
}

std::string Trust::ownerKey() const {
  std::lock_guard lock(mutex_);
  return ownerKey_;
}

std::array<uint8_t, 32> Trust::digest() const {
  std::lock_guard lock(mutex_);
  return digest_;
}

} // namespace sojourn::frontend
