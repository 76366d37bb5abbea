// SPDX-License-Identifier: Apache-2.0
// A session's step while it is under way.
#ifndef SOJOURN_OWNER_UNDERWAY_H
#define SOJOURN_OWNER_UNDERWAY_H

#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"

#include <cstdint>
#include <mutex>

namespace sojourn::owner {

/// While it lives, the session's step can be stopped.
class Underway {
public:
  Underway(OwnerBooks &books, StepMachine &machine, Session &session, RunningStep &step, uint64_t mark)
      : books(books), machine(machine), session(session), step(step) {
    machine.running.add(step);
    machine.running.renew(step);
    std::lock_guard lock(books.mutex);
    session.running = &step;
    session.mark = mark;
    session.progress = 0;
    session.stop = false;
    if (session.goneMs) {
      machine.running.endIn(step, kGoneGrace, StopCause::connection);
    }
  }
  ~Underway() {
    {
      std::lock_guard lock(books.mutex);
      session.running = nullptr;
    }
    machine.running.remove(step);
  }
  Underway(const Underway &) = delete;
  Underway &operator=(const Underway &) = delete;

private:
  OwnerBooks &books;
  StepMachine &machine;
  Session &session;
  RunningStep &step;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_UNDERWAY_H
