// SPDX-License-Identifier: Apache-2.0
// Files that a data owner writes: what `serve --config` reads, and rules of columns (`--bounds-file`). The first byte
// of an input chooses.
#include "owner/Import.h"
#include "owner/ServeSettings.h"
#include "test/fuzz/Bytes.h"

#include <algorithm>

namespace sojourn::fuzz {

namespace {

constexpr double kSlack = 1e-9;

class Settings final : public Target {
protected:
  void play(std::string_view input) override;
  std::string change(std::string input, size_t most, Dice &dice) override;

private:
  void readServe(const std::string &path);
  void readBounds(const std::string &path);
};

void Settings::play(std::string_view input) {
  if (input.empty()) {
    ++counts.refused;
    return;
  }
  const std::string path = scratchFolder() + "/settings.toml";
  writeFile(path, input.substr(1));
  (input[0] & 1) == 0 ? readServe(path) : readBounds(path);
}

void Settings::readServe(const std::string &path) {
  owner::ServeSettings settings;
  if (llvm::Error error = owner::readSettings(path, settings)) {
    const std::string text = llvm::toString(std::move(error));
    if (text.find(path) == std::string::npos) {
      broken("an error does not name the file: " + text);
    }
    ++counts.refused;
    return;
  }
  for (const owner::NumberSetting &setting : owner::numberSettings()) {
    const double value = setting.get(settings);
    const double slack = kSlack * std::max(1.0, setting.most);
    if (!(value >= setting.least - slack && value <= setting.most + slack) &&
        !(setting.least > 0 && value == 0)) { // a default that stands for "as the machine allows"
      broken(std::string("setting '") + setting.key + "' is " + std::to_string(value));
    }
  }
  settings.settle(2);
  if (settings.limits.price.operations == 0) {
    broken("a server without a single operation");
  }
  if (llvm::Error error = owner::checkSettings(settings)) {
    llvm::consumeError(std::move(error));
    ++counts.late;
    return;
  }
  ++counts.done;
}

void Settings::readBounds(const std::string &path) {
  owner::RegisterOptions options;
  if (llvm::Error error = owner::readBoundsFile(path, options)) {
    llvm::consumeError(std::move(error));
    ++counts.refused;
    return;
  }
  for (const auto &[column, bounds] : options.bounds) {
    if (!(bounds.lower <= bounds.upper)) { // the import refuses it
      ++counts.late;
      return;
    }
  }
  ++counts.done;
}

std::string numberOf(Dice &dice, const owner::NumberSetting *setting) {
  if (setting != nullptr && dice.chance(0.85)) {
    const double part = dice.unit();
    double value = setting->least + part * part * part * (setting->most - setting->least);
    value = dice.chance(0.2) ? setting->least : dice.chance(0.2) ? setting->most : value;
    return setting->isWhole ? std::to_string(static_cast<int64_t>(value)) : std::to_string(value);
  }
  return dice.of<std::string>({"1e300", "-1", "0.5", "nan", "inf", "9223372036854775807", "-9223372036854775808",
                               "0x10", "1_000", "\"7\"", "true", "[1, 2]", "{a = 1}", "1979-05-27", "1e15", "0"});
}

/// A line of settings, most of them valid.
std::string settingLine(Dice &dice) {
  const auto numbers = owner::numberSettings();
  if (dice.chance(0.25)) {
    return dice.of<std::string>({"listen = \"ipc:///run/o.sock\"", "listen = \"tcp://127.0.0.1:7000\"",
                                 "metrics = \"127.0.0.1:9464\"", "metrics = \"[::1]:1\"", "log = \"json\"",
                                 "log = \"text\"", "metrics = \"h:70000\"", "log = \"\\u202e\"", "listen = ''"});
  }
  const owner::NumberSetting &setting = numbers[dice.below(numbers.size())];
  return (*setting.table != '\0' ? std::string(setting.table) + "." : "") + setting.key + " = " +
         numberOf(dice, &setting);
}

std::string boundsLine(Dice &dice) {
  const std::string column =
      dice.of<std::string>({"age", "x", "\"a b\"", "arm", "visit", "bounds.y", "bounds.z", "'q'"});
  const auto number = [&] { return std::to_string(dice.between(-50, 50)); };
  switch (dice.below(8)) {
  case 0:
    return column + " = {lower = -" + std::to_string(dice.below(9)) + ", upper = " + std::to_string(dice.below(9)) +
           "}";
  case 1: return column + " = {categories = [\"low\", \"high\"], fill = \"low\"}";
  case 2: return column + " = [2020-01-01, 2024-12-31]";
  case 3: return column + " = {categories = [1, 2, " + number() + "]}";
  case 4: return column + " = [" + numberOf(dice, nullptr) + ", " + number() + "]";
  case 5: return column + " = {lower = 2020-01-01T00:00:00, upper = 2024-12-31T23:59:59.5, fill = 2021-01-01T00:00:00}";
  case 6: return column + " = {lower = 0, upper = 1e300, fill = 0.5}";
  default: return column + " = [-" + std::to_string(dice.below(50)) + ", " + std::to_string(dice.below(50)) + "]";
  }
}

std::string Settings::change(std::string input, size_t most, Dice &dice) {
  if (input.empty()) {
    input = std::string(1, static_cast<char>(dice.below(2)));
  }
  if (dice.chance(wildness()) && most > 1) {
    return input[0] + mutateBytes(input.substr(1), most - 1);
  }
  // Line by line: a key that stands twice is no TOML, so one goes where one comes.
  std::vector<std::string> lines;
  for (size_t at = 1; at < input.size();) {
    const size_t end = std::min(input.find('\n', at), input.size());
    lines.push_back(input.substr(at, end - at));
    at = end + 1;
  }
  const std::string line = (input[0] & 1) == 0 ? settingLine(dice) : boundsLine(dice);
  const std::string key = line.substr(0, line.find(' '));
  std::erase_if(lines, [&](const std::string &other) { return other.substr(0, other.find(' ')) == key; });
  if (!lines.empty() && dice.chance(0.4)) {
    lines.erase(lines.begin() + static_cast<long>(dice.below(lines.size())));
  }
  lines.insert(lines.begin(), line); // before any [table]
  std::string text(1, input[0]);
  for (const std::string &each : lines) {
    text += each + "\n";
  }
  return text.substr(0, most);
}

const Registered known("settings", [] { return std::unique_ptr<Target>(std::make_unique<Settings>()); });

} // namespace

} // namespace sojourn::fuzz
