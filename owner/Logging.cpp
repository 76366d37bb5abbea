// SPDX-License-Identifier: Apache-2.0
// spdlog's set-up.
#include "owner/Logging.h"

#include "owner/Text.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace sojourn::owner {

static constexpr size_t kLineBytes = 1 << 16;

std::function<void(std::string_view)> logToStandardError(bool everyRequest) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("sojourn-owner"));
  spdlog::set_level(everyRequest ? spdlog::level::debug : spdlog::level::info);
  return [](std::string_view text) { spdlog::info("{}", printable(text, kLineBytes)); };
}

} // namespace sojourn::owner
