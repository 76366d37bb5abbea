// SPDX-License-Identifier: Apache-2.0
// spdlog's set-up.
#include "owner/Logging.h"

#include "owner/Text.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace sojourn::owner {

static constexpr size_t kLineBytes = 1 << 16;

namespace {

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
    const nlohmann::ordered_json line = {{"time", time},
                                         {"level", std::string(level.data(), level.size())},
                                         {"text", std::string(message.payload.data(), message.payload.size())}};
    const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

} // namespace

std::function<void(std::string_view)> logToStandardError(bool everyRequest, bool asJson) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("sojourn-owner"));
  if (asJson) {
    spdlog::set_formatter(std::make_unique<JsonFormatter>());
  }
  spdlog::set_level(everyRequest ? spdlog::level::debug : spdlog::level::info);
  return [](std::string_view text) { spdlog::info("{}", printable(text, kLineBytes)); };
}

} // namespace sojourn::owner
