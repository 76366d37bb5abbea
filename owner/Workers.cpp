// SPDX-License-Identifier: Apache-2.0
#include "owner/Workers.h"

#include <spdlog/spdlog.h>
#include <system_error>
#include <utility>

namespace sojourn::owner {

bool Workers::run(std::function<void()> task) {
  std::lock_guard lock(mutex);
  if (isRefusing) {
    return false;
  }
  if (!resting.empty()) {
    Worker &worker = *resting.back();
    resting.pop_back();
    ++busy;
    worker.task = std::move(task);
    worker.called.notify_one();
    return true;
  }
  if (all.size() < most) {
    try {
      auto made = std::make_unique<Worker>();
      Worker &worker = *made;
      all.push_back(std::move(made));
      worker.task = std::move(task);
      try {
        worker.thread = std::thread([this, &worker] { work(worker); });
        ++busy;
        return true;
      } catch (const std::exception &error) {
        spdlog::error("no further request can be served at once: {}", error.what());
        task = std::move(worker.task);
        all.pop_back();
      }
    } catch (const std::bad_alloc &) {
      spdlog::error("no memory for a further thread");
    }
  }
  if (all.empty()) {
    return false;
  }
  waiting.push_back(std::move(task));
  return true;
}

void Workers::work(Worker &worker) {
  std::unique_lock lock(mutex);
  for (;;) {
    auto task = std::exchange(worker.task, nullptr);
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    if (!waiting.empty()) {
      worker.task = std::move(waiting.front());
      waiting.pop_front();
      continue;
    }
    if (--busy == 0) {
      idle.notify_all();
    }
    if (isOver) {
      return;
    }
    resting.push_back(&worker);
    worker.called.wait(lock, [&] { return worker.task || isOver; });
    if (!worker.task) {
      return;
    }
  }
}

void Workers::refuse() {
  std::deque<std::function<void()>> gone;
  std::lock_guard lock(mutex);
  isRefusing = true;
  gone.swap(waiting);
}

bool Workers::awaitIdle(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex);
  return idle.wait_for(lock, time, [&] { return busy == 0; });
}

void Workers::stop() {
  refuse();
  {
    std::lock_guard lock(mutex);
    isOver = true;
    for (auto &worker : all) {
      worker->called.notify_one();
    }
  }
  for (auto &worker : all) {
    if (worker->thread.joinable()) {
      worker->thread.join();
    }
  }
}

} // namespace sojourn::owner
