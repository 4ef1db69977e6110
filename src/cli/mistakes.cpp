#include "cli/mistakes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "core/nearest.hpp"

namespace dovetail::cli {
namespace {

using Names = std::vector<std::string>;
using Words = std::span<const std::string>;

/// Options of other commands, and the option of this command that is meant.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> same_meaning{
    {{"--at", "--due-at"},
     {"--delay", "--in"},
     {"--after", "--in"},
     {"--in", "--delay"},
     {"--delay", "--due-at"},
     {"--url", "--database"}}};

Names command_names(const CLI::App& app) {
  Names names;
  for (const auto* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(each->get_name());
  }
  return names;
}

Names option_names(const CLI::App& app) {
  Names names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string listed(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* each) { return each->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

/// Whether the next word is this option's value.
bool takes_next_word(const CLI::App& app, const std::string& word) {
  if (word.find('=') != std::string::npos) return false;
  const auto* option = app.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

/// The innermost command that CLI11 has recognised.
const CLI::App& chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : chosen_command(*chosen.front());
}

std::string quoted(const std::string& call) {
  return "`" + call + "`";
}

/// Commands of that name in groups, such as `dovetail joins show` for `show`.
Names commands_in_groups(const CLI::App& app, const std::string& word) {
  Names found;
  for (const auto* group : app.get_subcommands([](const CLI::App*) { return true; })) {
    const auto* command = command_named(*group, word);
    if (command != nullptr) found.push_back(quoted(path_of(*command)));
  }
  return found;
}

std::string unknown_name(const CLI::App& parent, const std::string& word) {
  const auto path = path_of(parent);
  const auto names = command_names(parent);
  const auto text = "there is no command " + quoted(path + " " + word);
  const auto did_you_mean = [&](const std::string& call) {
    return text + "; did you mean " + call + "?";
  };
  if (parent.get_option_no_throw("--" + word) != nullptr)
    return did_you_mean(quoted(path + " --" + word));
  if (const auto meant = core::nearest(word, names))
    return did_you_mean(quoted(path + " " + *meant));
  if (const auto found = commands_in_groups(parent, word); !found.empty())
    return did_you_mean(listed(found));
  if (names.size() == 1) return did_you_mean(quoted(path + " " + names.front()));
  return text + "; there are: " + listed(names);
}

/// The arguments of a command that have no option name, such as `TOPIC [PAYLOAD]`.
std::string arguments_of(const CLI::App& command) {
  std::string text;
  for (const auto* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const auto name = option->get_name(true, false);
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text;
}

/// The argument TOPIC for `--topic`.
const CLI::Option* argument_named(const CLI::App& command, const std::string& option) {
  auto name = option.substr(std::min(option.size(), option.find_first_not_of('-')));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const auto* each : command.get_options()) {
    if (each->get_positional() && each->get_name(true, false) == name) return each;
  }
  return nullptr;
}

std::string unknown_option(const CLI::App& command, const std::string& word) {
  const auto name = word.substr(0, word.find('='));
  auto text = "there is no option " + name;
  if (const auto* argument = argument_named(command, name)) {
    return text + "; " + argument->get_name(true, false) +
           " is an argument: " + quoted(path_of(command) + arguments_of(command));
  }
  for (const auto& [other, meant] : same_meaning) {
    if (name == other && command.get_option_no_throw(std::string{meant}) != nullptr)
      return text + "; did you mean " + std::string{meant} + "?";
  }
  if (const auto meant = core::nearest(name, option_names(command)))
    text += "; did you mean " + *meant + "?";
  return text;
}

/// Also recognises `-dvalue` and `--database=value`.
bool has_option(const CLI::App& app, const std::string& word) {
  const auto name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
  return app.get_option_no_throw(name) != nullptr;
}

std::string with_help(const CLI::App& command, const std::string& text) {
  return text + "\nRun " + quoted(path_of(command) + " --help") + " for its arguments and options.";
}

/// All missing options with their descriptions. CLI11 names only the first one.
std::string missing_options(const CLI::App& command) {
  std::string text;
  for (const auto* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    text +=
        (text.empty() ? "" : ", ") + option->get_name() + " (" + option->get_description() + ")";
  }
  return text;
}

bool is_option(const std::string& word) {
  return word.starts_with("-");
}

bool is_url(const std::string& word) {
  return word.starts_with("sqlite:") || word.starts_with("postgresql:") ||
         word.starts_with("postgres:");
}

/// For `dovetail lock` without NAME, or without the `--` in front of a command that has options.
/// Empty: another mistake.
std::string lock_mistake(const CLI::App& app, const CLI::App& command, Words words) {
  if (path_of(command) != "dovetail lock") return {};
  const auto extras = app.remaining(true);
  const auto option = std::ranges::find_if(
      extras, [](const auto& word) { return is_option(word) && word != "--"; });
  const auto dashes = std::ranges::find(words, "--");
  if (dashes != words.end()) {
    if (option != extras.end()) return {};
    const auto* missing = std::next(dashes) == words.end() ? "COMMAND" : "NAME";
    return std::string{missing} + " is missing: " + quoted("dovetail lock NAME -- COMMAND");
  }
  const auto& name = command.get_option("NAME")->results();
  const auto& run = command.get_option("COMMAND")->results();
  if (option == extras.end() || run.empty()) return {};
  const auto begin = std::ranges::find(words, run.front());
  if (std::find(begin, words.end(), *option) == words.end()) return {};  // an option of `lock`
  std::string call = "dovetail lock " + name.front() + " --";
  for (auto word = begin; word != words.end(); ++word) call += " " + *word;
  return "the command and its options follow --: " + quoted(std::as_const(call));
}

std::string unexpected(const CLI::App& app, const CLI::App& command, Words words) {
  auto extras = app.remaining(true);
  std::erase(extras, "--");
  if (std::ranges::find(words, "--") != words.end() && path_of(command) != "dovetail lock") {
    return "leave out the --; options may stand anywhere";
  }
  const auto option = std::ranges::find_if(extras, is_option);
  if (option != extras.end()) return unknown_option(command, *option);
  if (std::ranges::any_of(extras, is_url)) return "the database is an option: write -d URL";
  return "one argument too many: " + listed(extras) + "; a text with spaces or * needs quotes";
}

/// "--database: 1 required URL missing"
std::string missing_value(const std::string& text) {
  const auto colon = text.find(": ");
  const auto required = text.find(" required ");
  const auto end = text.rfind(" missing");
  if (colon == std::string::npos || required == std::string::npos || end == std::string::npos) {
    return text;
  }
  const auto name = text.substr(0, colon);
  const auto value = required + std::string_view{" required "}.size();
  return name + " needs a value: " + name + " " + text.substr(value, end - value);
}

}  // namespace

std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : path_of(*app.get_parent()) + " " + app.get_name();
}

std::optional<std::string> unknown_command(const CLI::App& app,
                                           std::span<const std::string> words) {
  const auto* at = &app;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    if (command_names(*at).empty() || word == "--" || word == "-h" || word == "--help")
      return std::nullopt;
    if (word.starts_with("-")) {
      if (!has_option(*at, word)) return with_help(*at, unknown_option(*at, word));
      if (takes_next_word(*at, word)) ++i;
    } else if (const auto* next = command_named(*at, word)) {
      at = next;
    } else {
      return unknown_name(*at, word);
    }
  }
  if (command_names(*at).empty() || std::ranges::find(words, "--version") != words.end()) {
    return std::nullopt;
  }
  return "`" + path_of(*at) + "` needs one of: " + listed(command_names(*at));
}

std::string refusal(const CLI::App& app, Words words, const CLI::ParseError& error) {
  const auto& command = chosen_command(app);
  std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    text = missing_value(text);
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto mistake = lock_mistake(app, command, words);
    text = mistake.empty() ? unexpected(app, command, words) : mistake;
  } else if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    text += " (a number is expected; times are in seconds)";
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const auto missing = missing_options(command);
    if (!missing.empty()) text = "missing: " + missing;
    // An argument that was written as an option is missing, too.
    if (std::ranges::any_of(app.remaining(true), is_option)) text = unexpected(app, command, words);
    if (const auto mistake = lock_mistake(app, command, words); !mistake.empty()) text = mistake;
  }
  return with_help(command, text);
}

}  // namespace dovetail::cli
