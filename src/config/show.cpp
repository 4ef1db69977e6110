#include "config/show.hpp"

#include <algorithm>

namespace dovetail::config {
namespace {

/// The section of a setting with entries, for people: `auth.tokens.NAME`.
std::string documented_section(const Setting& setting) {
  return setting.section_of(setting.entries ? "NAME" : "");
}

bool is_set(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return !text->empty();
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return !list->empty();
  return true;
}

/// A line such as `[worker]`, before the first setting of a section. `last` is the section before.
std::string heading(const std::string& section, std::string& last, const char* begin = "[",
                    const char* end = "]\n") {
  if (section == last) return {};
  const auto* blank = last.empty() ? "" : "\n";
  last = section;
  return blank + (begin + section) + end;
}

std::string sample_of(const Setting& setting) {
  if (setting.name() == "database.url") return R"("postgresql://app@localhost/orders")";
  if (setting.name() == "group.file") return R"("tenants.toml")";
  if (setting.key == "sha256") return toml_string(std::string(64, '0'));
  if (setting.key == "password_hash") return toml_string("$6$SALT$HASH");
  if (setting.key == "secret") return toml_string("whsec_" + std::string(32, 'A'));
  return setting.kind == Kind::list ? "[]" : R"("")";
}

/// A cell of a Markdown table.
std::string cell(const std::string& text) {
  return " " + text + " |";
}

std::string reference_row(const Setting& setting, const Settings& defaults) {
  const auto value = setting.get(defaults);
  const auto shown_default = is_set(value) ? "`" + setting.shown(value) + "`" : std::string{"-"};
  std::string notes = setting.description;
  if (setting.secret != Secret::none)
    notes += ". Secret: or `" + setting.key + "_file`, the path of a file that contains it";
  if (!setting.variable.empty()) notes += ". Also `" + setting.variable + "`";
  if (setting.reloadable) notes += ". Reloadable";
  return "|" + cell("`" + setting.key + "`") + cell(shown_default) + cell(setting.allowed()) +
         cell(notes) + "\n";
}

}  // namespace

std::string origin_text(const Origin& origin) {
  const std::string layer{to_string(origin.layer)};
  return origin.place.empty() ? layer : layer + " " + origin.place;
}

std::string shown_toml(const Loaded& loaded, bool with_origin) {
  std::string text;
  std::string last;
  for (const auto& [setting, entry] : places_in(loaded.settings)) {
    text += heading(setting->section_of(entry), last);
    const auto value = setting->get(loaded.settings, entry);
    text += is_set(value) ? setting->key + " = " + setting->shown(value)
                          : "# " + setting->key + " is not set";
    if (with_origin && is_set(value))
      text += "  # " + origin_text(loaded.origin_of(setting->name(entry)));
    text += "\n";
  }
  return text;
}

std::string example_file() {
  const Settings defaults;
  std::string text =
      "# A configuration file of Dovetail. The values are the defaults. See "
      "docs/configuration.md.\n"
      "# Check it with: dovetail config check FILE\n\n";
  std::string last;
  for (const auto& setting : table()) {
    text += heading(documented_section(setting), last, setting.entries ? "#[" : "[");
    const auto value = setting.get(defaults);
    text += "# " + setting.description + ": " + setting.allowed() + "\n";
    text += "#" + setting.key + " = " +
            (is_set(value) ? setting.shown(value) : sample_of(setting)) + "\n";
  }
  return text;
}

std::string reference() {
  const Settings defaults;
  std::string text;
  std::string last;
  for (const auto& setting : table()) {
    text += heading(documented_section(setting), last, "### `[",
                    "]`\n\n| Setting | Default | Allowed | Meaning |\n| --- | --- | --- | --- |\n");
    text += reference_row(setting, defaults);
  }
  return text;
}

}  // namespace dovetail::config
