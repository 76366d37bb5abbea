// SPDX-License-Identifier: Apache-2.0
// spdlog's set-up.
#include "owner/Logging.h"

#include "owner/Text.h"

#include "llvm/ADT/ScopeExit.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace sojourn::owner {

static constexpr size_t kLineBytes = 1 << 16;

namespace {

/// The owner's line that this thread writes; null for lines of the server.
thread_local const LogLine *current = nullptr;

class JsonFormatter : public spdlog::formatter {
public:
  void format(const spdlog::details::log_msg &message, spdlog::memory_buf_t &out) override {
    const auto level = spdlog::level::to_string_view(message.level);
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch()).count();
    const std::time_t seconds = millis / 1000;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char time[32];
    const size_t length = std::strftime(time, sizeof(time), "%FT%T", &parts);
    std::snprintf(time + length, sizeof(time) - length, ".%03dZ", static_cast<int>(millis % 1000));
    nlohmann::ordered_json line = {{"time", time}, {"level", std::string(level.data(), level.size())}};
    if (current != nullptr) {
      for (auto [key, value] : {std::pair("event", current->event),
                                {"client", current->client},
                                {"request", current->request},
                                {"tables", current->tables},
                                {"code", current->code}}) {
        if (!value.empty()) {
          line[key] = value;
        }
      }
    }
    line["text"] = std::string(message.payload.data(), message.payload.size());
    const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

} // namespace

std::function<void(const LogLine &)> logToStandardError(bool everyRequest, bool asJson) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("sojourn-owner"));
  if (asJson) {
    spdlog::set_formatter(std::make_unique<JsonFormatter>());
  }
  spdlog::set_level(everyRequest ? spdlog::level::debug : spdlog::level::info);
  return [](const LogLine &line) {
    const std::string text = printable(line.text, kLineBytes);
    current = &line;
    llvm::scope_exit forget([] { current = nullptr; });
    spdlog::info("{}", text); // formats within this call
  };
}

} // namespace sojourn::owner
