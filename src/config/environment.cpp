// Environment variables and flags.
#include <unistd.h>

#include <algorithm>
#include <array>

#include "config/given.hpp"
#include "core/nearest.hpp"

namespace dovetail::config {
namespace {

constexpr std::string_view prefix = "DOVETAIL_";
/// `dovetail work` gives its commands the headers of the message. They are no settings.
constexpr std::string_view header_prefix = "DOVETAIL_HEADER_";
constexpr std::string_view separator = "__";

std::string lower(std::string_view text) {
  std::string result{text};
  std::ranges::transform(result, result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

const Setting* setting_with_variable(std::string_view variable) {
  for (const auto& setting : table()) {
    if (setting.variable == variable) return &setting;
  }
  return nullptr;
}

/// All variables of settings.
std::vector<std::string> known_variables() {
  std::vector<std::string> names;
  for (const auto& setting : table()) {
    names.push_back(variable_of(setting));
    if (setting.secret != Secret::none) names.push_back(variable_of(setting) + "_FILE");
  }
  return names;
}

NamedSetting setting_of_variable(std::string_view variable) {
  if (const auto* setting = setting_with_variable(variable)) return {{setting, {}}, false};
  auto section = lower(variable.substr(prefix.size()));
  const auto end = section.rfind(separator);
  const auto key = section.substr(end + separator.size());
  section.resize(end);
  for (std::size_t at = 0; (at = section.find(separator, at)) != std::string::npos;)
    section.replace(at, separator.size(), ".");
  return setting_named(section, key);
}

bool is_setting(std::string_view variable) {
  if (setting_with_variable(variable) != nullptr) return true;
  return variable.starts_with(prefix) && !variable.starts_with(header_prefix) &&
         variable.find(separator, prefix.size()) != std::string_view::npos;
}

std::string unknown_variable(const std::string& variable) {
  std::string text = "there is no such setting";
  if (const auto meant = core::nearest(variable, known_variables()))
    return text + "; did you mean " + *meant + "?";
  return text + "; unset the variable";
}

/// Adds the value of a variable or a flag.
void add_text(const Place& at, const std::string& text, const Origin& origin, GivenValues& values) {
  try {
    auto value = at.setting->parse(text);
    at.setting->check(value);
    values.add({.at = at, .value = std::move(value), .origin = origin});
  } catch (const std::invalid_argument& error) {
    values.complain(origin.place, bad_value(at, error.what(), toml_string(text)));
  }
}

}  // namespace

std::vector<std::string> process_environment() {
  std::vector<std::string> texts;
  for (auto** each = ::environ; *each != nullptr; ++each) texts.emplace_back(*each);
  return texts;
}

void read_environment(const std::vector<std::string>& environment, GivenValues& values) {
  for (const auto& each : environment) {
    const auto equals = each.find('=');
    if (equals == std::string::npos || equals + 1 == each.size()) continue;  // empty: not set
    const auto variable = each.substr(0, equals);
    if (!is_setting(variable)) continue;
    const auto text = each.substr(equals + 1);
    const Origin origin{Layer::environment, variable};
    const auto [at, is_twin] = setting_of_variable(variable);
    if (at.setting == nullptr) {
      values.complain(variable, unknown_variable(variable));
    } else if (is_twin) {
      values.add({.at = at, .origin = origin, .secret_file = text});
    } else {
      add_text(at, text, origin, values);
    }
  }
}

void read_flags(const std::vector<FlagValue>& flags, GivenValues& values) {
  for (const auto& [name, flag, text] : flags) {
    add_text({&setting(name), {}}, text, {Layer::flag, flag}, values);
  }
}

}  // namespace dovetail::config
