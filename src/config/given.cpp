#include "config/given.hpp"

#include <algorithm>

#include "core/nearest.hpp"

namespace dovetail::config {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view twin_ending = "_file";

/// The names that may follow `parent`: `tokens` after `auth`. Without a parent, the sections.
Names sections_below(const std::string& parent) {
  Names names;
  for (const auto& setting : table()) {
    const auto prefix = parent.empty() ? "" : parent + ".";
    if (!setting.section.starts_with(prefix) || setting.section == parent) continue;
    const auto name = setting.section.substr(
        prefix.size(), setting.section.find('.', prefix.size()) - prefix.size());
    if (name != "*" && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

/// Whether `name` is the section, or an entry of it. Returns the entry.
std::optional<std::string> entry_in(const std::string& section, const std::string& name) {
  if (!section.ends_with('*')) return section == name ? std::optional{std::string{}} : std::nullopt;
  const auto prefix = section.substr(0, section.size() - 1);
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto entry = name.substr(prefix.size());
  return entry.empty() || entry.find('.') != std::string::npos ? std::nullopt
                                                               : std::optional{entry};
}

Names keys_of(const std::string& section) {
  Names keys = sections_below(section);
  for (const auto& setting : table()) {
    if (!entry_in(setting.section, section)) continue;
    keys.push_back(setting.key);
    if (setting.secret != Secret::none) keys.push_back(setting.key + std::string{twin_ending});
  }
  return keys;
}

std::string listed(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void GivenValues::add(Given given) {
  const auto name = given.name();
  const auto [place, added] = values_.try_emplace(name, given);
  if (added) return;
  complain(given.origin.place,
           name + " is already given by " + place->second.origin.place + "; remove one of them");
}

NamedSetting setting_named(const std::string& section, const std::string& key) {
  for (const auto& setting : table()) {
    const auto entry = entry_in(setting.section, section);
    if (!entry) continue;
    if (setting.key == key) return {{&setting, *entry}, false};
    if (setting.secret != Secret::none && setting.key + std::string{twin_ending} == key)
      return {{&setting, *entry}, true};
  }
  return {};
}

bool is_section(const std::string& name) {
  return std::ranges::any_of(table(), [&](const Setting& setting) {
    return entry_in(setting.section, name) || setting.section.starts_with(name + ".");
  });
}

std::string section_hint(const std::string& name) {
  const auto known = sections_below("");
  if (const auto meant = core::nearest(name, known)) return "; did you mean " + *meant + "?";
  return "; there are: " + listed(known);
}

std::string key_hint(const std::string& section, const std::string& key) {
  const auto keys = keys_of(section);
  if (const auto meant = core::nearest(key, keys)) return "; did you mean " + *meant + "?";
  for (const auto& setting : table()) {
    if (setting.key == key) return "; did you mean " + setting.name() + "?";
  }
  return keys.empty() ? section_hint(key) : "; there are: " + listed(keys);
}

std::string bad_value(const Place& at, const std::string& must_be, const std::string& got) {
  const auto text = at.setting->name(at.entry) + " must be " + must_be;
  return at.setting->secret == Secret::none ? text + ", got " + got : text;
}

}  // namespace dovetail::config
